// Comparing a pair with one key. Every key can be switched off, and the form works without any of this.

const OFF = "saiten.shortcuts";
const form = document.getElementById("pair");
const reason = document.getElementById("reason");
const shortcuts = document.getElementById("shortcuts");
const before = document.getElementById("before");
let sent = false;

// The digit that was typed: by the character, else by the key, for layouts that have digits on the shifted level.
function digitOf(event) {
  if (/^[012]$/.test(event.key)) {
    return event.key;
  }
  const found = event.shiftKey ? null : /^(?:Digit|Numpad)([012])$/.exec(event.code);
  return found && !/^[a-z]$/i.test(event.key) ? found[1] : "";
}

function press(event) {
  if (event.key === "Backspace" && before) {
    return before.click(), true;
  }
  if (event.key === "r" || event.key === "R") {
    document.getElementById("why").open = true;
    return reason.focus(), true;
  }
  const button = form.querySelector(`button[data-key="${digitOf(event) || "none"}"]`);
  return button ? (form.requestSubmit(button), true) : false;
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target === reason && !event.isComposing) {
    reason.blur();
    return;
  }
  const modified = event.ctrlKey || event.altKey || event.metaKey || event.isComposing;
  const typing = event.target.closest?.("textarea, select, input:not([type=checkbox]), [contenteditable]");
  if (shortcuts.checked && !modified && !event.repeat && !event.defaultPrevented && !typing && press(event)) {
    event.preventDefault();
  }
});

form.addEventListener("submit", (event) => {
  if (sent) {
    event.preventDefault();
  }
  sent = true;
});

// Back from the next page, the form can be sent again.
window.addEventListener("pageshow", () => { sent = false; });

function showKeys() {
  for (const key of form.querySelectorAll("kbd.key")) {
    key.hidden = !shortcuts.checked;
  }
  document.getElementById("keys").hidden = !shortcuts.checked;
}

shortcuts.addEventListener("change", () => {
  localStorage.setItem(OFF, shortcuts.checked ? "on" : "off");
  showKeys();
});

shortcuts.checked = localStorage.getItem(OFF) !== "off";
form.querySelector(".shortcuts").hidden = false;
showKeys();
