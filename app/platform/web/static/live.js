// Runs move on without a reload: one stream for all that have not ended, each event with the HTML of a run's progress.
// What a list does not show yet is told by a button: nothing moves under who reads until it is pressed.

import { renew } from "./app.js";

let source = null;
let watched;

function follow() {
  source?.close();
  const runs = new Set([...document.querySelectorAll("[data-live]")].map((part) => part.dataset.live));
  watched = document.querySelector("[data-watch]")?.dataset.watch;
  if (!(runs.size || watched) || !window.EventSource) {
    return;
  }
  const address = new URLSearchParams(watched);
  [...runs].slice(0, 50).forEach((run) => address.append("run", run));
  source = new EventSource(`/live?${address}`);
  source.addEventListener("progress", (event) => show(JSON.parse(event.data)));
  source.addEventListener("ended", (event) => finish(JSON.parse(event.data)));
  source.addEventListener("gone", () => refresh());
  source.addEventListener("news", (event) => offer(JSON.parse(event.data).text));
  source.addEventListener("over", () => source.close());
}

// A screen reader is told the first time only: counts go on changing.
function offer(text) {
  const news = document.getElementById("news");
  const button = news.firstElementChild ?? Object.assign(document.createElement("button"), { type: "button" });
  news.hidden = !text;
  button.textContent = text;
  if (!text) {
    news.replaceChildren();
  } else if (!button.parentNode) {
    news.ariaLive = "polite";
    button.addEventListener("click", take);
    news.append(button);
  } else {
    news.ariaLive = "off";
  }
}

async function take() {
  offer("");
  document.getElementById("main").focus({ preventScroll: true });
  if (!document.querySelector("[data-renew][data-watch]")) {
    location.reload();
    return;
  }
  await renew();
  follow();
}

const shown = new WeakMap();

// A run may appear in several places, and its parts may have been replaced meanwhile.
function show({ id, html }) {
  for (const part of document.querySelectorAll(`[data-live="${CSS.escape(id)}"]`)) {
    if (shown.get(part) !== html) {
      shown.set(part, html);
      part.innerHTML = html;
    }
  }
}

function finish(ended) {
  if (!document.querySelector(`[data-live="${CSS.escape(ended.id)}"]`)) {
    return;
  }
  show(ended);
  const status = document.getElementById("announcement");
  if (status) {
    status.textContent = ended.said;
  }
  refresh();
}

let waiting = null;

// Several runs may end at once: the page is fetched once for all of them.
function refresh() {
  waiting ??= setTimeout(async () => {
    waiting = null;
    // While new rows wait for the button, only rows that are there change.
    await renew(document.getElementById("news").hidden ? "[data-renew]" : "tr[data-row]");
    if (document.querySelector("[data-watch]")?.dataset.watch !== watched) {
      follow();
    }
  }, 150);
}

follow();
window.addEventListener("pagehide", () => source?.close());
window.addEventListener("pageshow", (event) => { if (event.persisted) { follow(); } });
