"""`/invited`: the way in for raters who were sent a link, and what that link opens.

The secret stands behind the `#` of the link, which browsers send to no one: it is in no log and in no referrer. A
script puts it into the form; without one the rater pastes the link.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Request, Response

from saiten.core.messages import Message
from saiten_server.core.errors import NotFound
from saiten_server.platform.request_limits import count_caller
from saiten_server.platform.web.admission import INVITED_COOKIE, SESSION_COOKIE, cookie_of, find_key
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.page import (
    OPEN_BYTES,
    LoginNeeded,
    PageRoute,
    enter,
    is_invited,
    is_secure,
    read_form,
    redirect,
    render,
    require_write,
)
from saiten_server.ratings.values import Invitation

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_LINK_CHARACTERS = 500
"""Of a pasted link; a longer one is none."""


class RatingVisitor(NamedTuple):
    """Who comes to a round: someone with a key, or a rater with an invitation to it."""

    project: str
    invitation: Invitation | None = None


async def enter_round(request: Request, container: Serving, round_id: str) -> RatingVisitor:
    """Lets a visitor in who has a key, or an invitation to this round. Raises LoginNeeded, RequestRefused, NotFound for
    an invitation to another round, and RequestLimitReached."""
    if not is_invited(request):
        return RatingVisitor(await enter(request))
    invitation = await find_invitation(request, container)
    if invitation is None:
        raise LoginNeeded("/", page="/invited")
    await count_caller(request, invitation.id, container.settings.key_requests_per_minute)
    if invitation.round != round_id:
        raise NotFound(Message("round-not-found"))
    return RatingVisitor(invitation.project, invitation)


RoundVisitor = Annotated[RatingVisitor, Depends(enter_round)]


def require_rater(request: Request, visitor: RatingVisitor) -> None:
    """Raises RequestRefused (403) for a visitor with a key that may only read."""
    if visitor.invitation is None:
        require_write(request)


async def find_invitation(request: Request, container: Serving) -> Invitation | None:
    """The invitation that the browser shows, if it holds."""
    secret = request.cookies.get(INVITED_COOKIE, "")
    return await container.ratings.invitations.find(secret, datetime.now(UTC)) if secret else None


@router.get("/invited")
async def show_invited(request: Request, container: Serving) -> Response:
    """Asks for the link; who has one already is led to the round. What no longer holds is forgotten."""
    held = await find_invitation(request, container)
    has_ended = held is None and INVITED_COOKIE in request.cookies
    response = render_link_form(request, held=held, problem="ended" if has_ended else "")
    if has_ended:
        response.delete_cookie(INVITED_COOKIE, httponly=True, samesite="lax")
    return response


@router.post("/invited")
async def accept_invitation(request: Request, container: Serving) -> Response:
    """Keeps the invitation in a cookie and redirects to its round. The cookie has the secret itself: it opens what the
    link does, ends with it, and could be revoked no sooner if it were another."""
    pasted = (await read_form(request, OPEN_BYTES)).get("link")
    secret, now = pasted.rpartition("#")[2], datetime.now(UTC)
    can_be = pasted.isascii() and len(pasted) <= MOST_LINK_CHARACTERS
    found = await container.ratings.invitations.find(secret, now) if can_be else None
    if found is None:
        return render_link_form(request, 401, problem="unknown")
    if await find_key(container.governance.keys, cookie_of(request)) is not None:
        return render_link_form(request, 409, problem="signed-in")
    response = redirect(f"/rate/{found.round}")
    if SESSION_COOKIE in request.cookies:  # of a session that has ended
        response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="lax")
    seconds = int((found.expires_at - now).total_seconds())
    secure = is_secure(request)
    response.set_cookie(INVITED_COOKIE, secret, max_age=seconds, secure=secure, httponly=True, samesite="lax")
    return response


def render_link_form(
    request: Request, status: int = 200, *, held: Invitation | None = None, problem: str = ""
) -> Response:
    """The page; `problem` is `ended`, `unknown` or `signed-in`."""
    return render(request, "invited.html", status, held=held, problem=problem)
