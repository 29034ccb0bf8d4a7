// Rating with one key an aspect. Every key can be switched off, and the form works without any of this.

import { digitOf, offerShortcuts, sendOnce } from "./sheet_keys.js";

const form = document.getElementById("sheet");
const aspects = [...form.querySelectorAll("fieldset.aspect")];
const save = document.getElementById("save");
const comment = document.getElementById("comment");
const announcement = document.getElementById("announcement");
const shortcuts = offerShortcuts(form);
let current = -1;

function radios(aspect) {
  return [...aspect.querySelectorAll("input[type=radio]")];
}

function chosen(aspect) {
  return radios(aspect).find((radio) => radio.checked);
}

// Marks an aspect, or none of them where all are done; `aspects.length` stands for the button.
function mark(index) {
  current = index;
  aspects.forEach((aspect, number) => { aspect.classList.toggle("current", number === index); });
}

// Moves the focus as well, so that a screen reader says where it is.
function moveTo(index) {
  const at = Math.max(0, Math.min(index, aspects.length));
  mark(at);
  const target = at < aspects.length ? chosen(aspects[at]) ?? radios(aspects[at])[0] : save;
  target.focus({ preventScroll: true });
  (aspects[at] ?? save).scrollIntoView({ block: "nearest" });
}

function clearFault(aspect) {
  aspect.removeAttribute("aria-invalid");
  aspect.querySelector(".fault").hidden = true;
}

function showFault(aspect) {
  aspect.setAttribute("aria-invalid", "true");
  const fault = aspect.querySelector(".fault");
  fault.hidden = false;
  const described = aspect.getAttribute("aria-describedby").split(" ");
  aspect.setAttribute("aria-describedby", [...new Set([...described, fault.id])].join(" "));
}

// Whether all is chosen; else points out what is not, and goes to the first of it.
function check() {
  const missing = aspects.filter((aspect) => !chosen(aspect));
  missing.forEach(showFault);
  if (missing.length > 0) {
    const names = missing.map((aspect) => aspect.querySelector("legend").textContent.trim());
    announcement.textContent = `${form.dataset.missing} ${names.join(", ")}`;
    moveTo(aspects.indexOf(missing[0]));
  }
  return missing.length === 0;
}

function choose(digit) {
  const radio = current < aspects.length && aspects[current].querySelector(`input[data-key="${digit}"]`);
  if (!radio) {
    return false;
  }
  radio.checked = true;
  radio.dispatchEvent(new Event("change", { bubbles: true }));
  moveTo(current + 1);
  return true;
}

// Shortcuts must not interfere with typing, or with controls that use the keys themselves.
function isTyping(target) {
  return Boolean(target.closest?.("textarea, select, input:not([type=radio], [type=checkbox]), [contenteditable]"));
}

function isControl(target) {
  return Boolean(target.closest?.("a, button, summary, [tabindex='0']"));
}

function press(event) {
  switch (event.key) {
    case "ArrowDown":
      return moveTo(current + 1), true;
    case "ArrowUp":
    case "Backspace":
      return moveTo(current - 1), true;
    case "c":
    case "C":
      return comment.focus(), true;
    case "Enter":
      // A radio's Enter sends the form by itself.
      return event.target === document.body ? (form.requestSubmit(save), true) : false;
    default: {
      const digit = digitOf(event);
      return digit !== "" && choose(digit);
    }
  }
}

document.addEventListener("keydown", (event) => {
  const modified = event.ctrlKey || event.altKey || event.metaKey || event.isComposing;
  if (!shortcuts.checked || modified || event.repeat || event.defaultPrevented || isTyping(event.target)) {
    return;
  }
  const scrolls = event.key.startsWith("Arrow") && !form.contains(event.target) && isControl(event.target);
  if (!scrolls && press(event)) {
    event.preventDefault();
  }
});

form.addEventListener("focusin", (event) => {
  const index = aspects.indexOf(event.target.closest("fieldset.aspect"));
  if (index >= 0) {
    mark(index);
  } else if (event.target === save) {
    mark(aspects.length);
  }
});

form.addEventListener("change", (event) => {
  const aspect = event.target.closest("fieldset.aspect");
  if (aspect && chosen(aspect)) {
    clearFault(aspect);
  }
});

sendOnce(form, check);

const first = aspects.findIndex((aspect) => !chosen(aspect));
mark(first < 0 ? 0 : first);
