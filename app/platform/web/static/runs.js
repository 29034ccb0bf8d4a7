// Two runs picked make a comparison: the button says what is missing, and picks outlast paging, filtering and renewal.
const NAMES = ["baseline", "candidate"];
const form = document.getElementById("comparison");

function picks() {
  const data = new FormData(form);
  return Object.fromEntries(NAMES.map((name) => [name, data.get(name)]));
}

function tell() {
  const button = document.getElementById("compare");
  const missing = document.getElementById("missing");
  if (!button || !missing) {
    return;
  }
  const { baseline, candidate } = picks();
  const same = baseline && baseline === candidate;
  const need = same ? "same" : !baseline && !candidate ? "both" : !baseline ? "baseline" : !candidate ? "candidate" : "ready";
  button.disabled = need !== "ready";
  if (missing.textContent !== missing.dataset[need]) {
    missing.textContent = missing.dataset[need];
  }
}

// Links of the list and its filter take the picks along.
function carry() {
  const picked = picks();
  for (const link of document.querySelectorAll(".pages a, .filters a")) {
    const address = new URL(link.href);
    for (const name of NAMES) {
      if (picked[name]) {
        address.searchParams.set(name, picked[name]);
      }
    }
    link.href = address.pathname + address.search;
  }
  const filters = document.querySelector("form.filters");
  for (const name of NAMES) {
    let field = filters.querySelector(`input[name="${name}"]`);
    if (picked[name] && !field) {
      field = Object.assign(document.createElement("input"), { type: "hidden", name });
      filters.append(field);
    }
    if (field) {
      field.value = picked[name] ?? "";
    }
  }
}

let kept = {};

function keep() {
  kept = picks();
  tell();
  carry();
}

if (form) {
  form.addEventListener("change", keep);
  document.addEventListener("renewed", () => {
    for (const name of NAMES) {
      for (const field of form.querySelectorAll(`input[name="${name}"]`)) {
        field.checked = field.value === kept[name];
      }
    }
    tell();
  });
  keep();
}
