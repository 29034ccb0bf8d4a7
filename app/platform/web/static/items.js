// Up and down (or j and k) go through the rows, Home and End to the first and last; Enter opens, as it does anyway.

let links = [];

function go(index) {
  const link = links[Math.max(0, Math.min(links.length - 1, index))];
  if (link) {
    choose(link);
    link.focus();
    (link.closest("tr") ?? link).scrollIntoView({ block: "nearest" });
  }
}

// One row is reached with Tab, the others from it.
function choose(chosen) {
  for (const link of links) {
    link.tabIndex = link === chosen ? 0 : -1;
  }
}

function step(key, at) {
  switch (key) {
    case "ArrowDown": case "j": return at + 1;
    case "ArrowUp": case "k": return Math.max(0, at - 1);
    case "Home": return at < 0 ? null : 0;
    case "End": return at < 0 ? null : links.length - 1;
    default: return null;
  }
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest("input, select, textarea, button, summary:not(.row-link)")) {
    return;
  }
  const at = links.indexOf(document.activeElement);
  if (at < 0 && (event.key === "ArrowDown" || event.key === "ArrowUp") && event.target !== document.body) {
    return;
  }
  const to = step(event.key, at);
  if (to !== null && links.length) {
    event.preventDefault();
    go(to);
  }
});

function start() {
  links = [...document.querySelectorAll(".row-link")];
  if (!links.length) {
    return;
  }
  const remembered = document.getElementById(location.hash.slice(1))?.querySelector(".row-link");
  choose(remembered ?? links[0]);
  // Once the page is loaded: going to the fragment takes the focus away.
  addEventListener("load", () => remembered?.focus({ preventScroll: true }));
  for (const keys of document.querySelectorAll(".keys")) {
    keys.hidden = false;
  }
}
start();
document.addEventListener("renewed", start);
