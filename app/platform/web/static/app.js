// What every page has: copying, times in the reader's own zone, and parts that renew themselves. Reading needs none of it.

function showTimes(root) {
  const format = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.valueOf())) {
      time.title = time.textContent;
      time.textContent = format.format(at);
    }
  }
}

function offerCopies(root) {
  for (const button of root.querySelectorAll("button.copy")) {
    button.hidden = false;
  }
}

async function copy(button) {
  await navigator.clipboard.writeText(button.dataset.copy);
  const before = button.textContent;
  button.textContent = button.dataset.copied;
  setTimeout(() => { button.textContent = before; }, 1500);
}

// Fetches the page again and replaces its parts: <section id="…" data-renew>, or those of another selector. Tells those
// that hold parts of the page by the event "renewed".
export async function renew(selector = "[data-renew]") {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (answer.redirected) {
    location.replace(answer.url);  // what the page waited for is there
    return null;
  }
  if (!answer.ok) {
    return null;
  }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll(selector)) {
    const found = fresh.getElementById(part.id);
    if (found && !part.contains(document.activeElement)) {
      const made = document.importNode(found, true);
      // What a stream of events shows may be newer than a page that was asked for before it.
      for (const live of part.querySelectorAll("[data-live]")) {
        made.querySelector(`[data-live="${CSS.escape(live.dataset.live)}"]`)?.replaceWith(live);
      }
      part.replaceWith(made);
      prepare(document.getElementById(part.id));
    } else if (!found && part.querySelector(".computing")) {
      part.remove();  // what was being computed turned out to be nothing
    }
  }
  document.dispatchEvent(new Event("renewed"));
  wait();
  return fresh;
}

export function prepare(root) {
  showTimes(root);
  offerCopies(root);
}

// A second click sends nothing: the answer to the first is on its way. Later the form may have been stopped.
const TWICE_MS = 2000;
const sent = new WeakMap();

document.addEventListener("submit", (event) => {
  if (event.target.method !== "post" || event.defaultPrevented) {
    return;
  }
  if (event.timeStamp - (sent.get(event.target) ?? -TWICE_MS) < TWICE_MS) {
    event.preventDefault();
    return;
  }
  sent.set(event.target, event.timeStamp);
});

let waits = false;

// A page that waits for something being computed asks again; without script its <meta> does. What a renewal brought
// may have to be waited for too.
async function wait() {
  if (waits) {
    return;
  }
  waits = true;
  try {
    while (document.querySelector(".computing")) {
      await new Promise((resolve) => { setTimeout(resolve, 1000); });
      // A part of its own is renewed only while it waits itself: another may be read meanwhile.
      await renew('[data-renew=""], [data-renew]:has(.computing)');
    }
  } finally {
    waits = false;
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.copy");
  if (button) {
    copy(button);
  }
});

prepare(document);
wait();
