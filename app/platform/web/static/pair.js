// Comparing a pair with one key. Every key can be switched off, and the form works without any of this.

import { digitOf, offerShortcuts, sendOnce } from "./sheet_keys.js";

const form = document.getElementById("pair");
const reason = document.getElementById("reason");
const shortcuts = offerShortcuts(form);
const before = document.getElementById("before");

function press(event) {
  if (event.key === "Backspace" && before) {
    return before.click(), true;
  }
  if (event.key === "r" || event.key === "R") {
    document.getElementById("why").open = true;
    return reason.focus(), true;
  }
  const button = form.querySelector(`button[data-key="${digitOf(event, "Digit|Numpad") || "none"}"]`);
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

sendOnce(form);

