// Runs move on without a reload: one stream for all that have not ended, each event with the HTML of a run's progress.

// By the address that the page has it under: under another one it would be a second module.
const { renew } = await import(document.querySelector('script[src$="/app.js"]').src);

function follow() {
  const runs = new Set([...document.querySelectorAll("[data-live]")].map((part) => part.dataset.live));
  if (!runs.size || !window.EventSource) {
    return;
  }
  const address = new URLSearchParams([...runs].slice(0, 50).map((run) => ["run", run]));
  const source = new EventSource(`/live?${address}`);
  source.addEventListener("progress", (event) => show(JSON.parse(event.data)));
  source.addEventListener("ended", (event) => finish(JSON.parse(event.data)));
  source.addEventListener("gone", () => refresh());
  source.addEventListener("over", () => source.close());
  window.addEventListener("pagehide", () => source.close());
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
    await renew();
    document.dispatchEvent(new Event("renewed"));
  }, 150);
}

follow();
window.addEventListener("pageshow", (event) => { if (event.persisted) { follow(); } });
