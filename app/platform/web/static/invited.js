// An invitation stands behind the address's `#`. It leaves the address at once, and with it the history.
const form = document.getElementById("invitation");
const secret = location.hash.slice(1);
if (secret) {
  history.replaceState(null, "", location.pathname);
  form.elements.link.value = secret;
  form.submit();
}
