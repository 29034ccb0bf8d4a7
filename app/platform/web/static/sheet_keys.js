// What the sheets of ratings and of pairs share: single keys that can be switched off, and a form that is sent once.

const OFF = "saiten.shortcuts";

// The digit that was typed: by the character, else by the key, for layouts that have digits on the shifted level. `keys`
// are the kinds of keys that count.
export function digitOf(event, keys = "Digit") {
  if (/^[0-9]$/.test(event.key)) {
    return event.key;
  }
  const found = event.shiftKey ? null : new RegExp(`^(?:${keys})([0-9])$`).exec(event.code);
  return found && !/^[a-z]$/i.test(event.key) ? found[1] : "";
}

// The switch, which is remembered; keys are shown in the form where they work.
export function offerShortcuts(form) {
  const shortcuts = document.getElementById("shortcuts");
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
  return shortcuts;
}

// Sends the form once, where `check` allows it. Back from the next page, it can be sent again.
export function sendOnce(form, check = () => true) {
  let sent = false;
  form.addEventListener("submit", (event) => {
    if (sent || !check()) {
      event.preventDefault();
      return;
    }
    sent = true;
  });
  window.addEventListener("pageshow", () => { sent = false; });
}
