// Left and right lead to the neighbouring items, Escape back to the list.

const keys = { ArrowLeft: "prev", ArrowRight: "next", Escape: "up" };

document.addEventListener("keydown", (event) => {
  const plain = !(event.altKey || event.ctrlKey || event.metaKey || event.shiftKey);
  // In a wide table the arrows scroll.
  if (plain && keys[event.key] && !event.target.closest("input, select, textarea, .scroll, pre")) {
    document.querySelector(`a[rel="${keys[event.key]}"]`)?.click();
  }
});
