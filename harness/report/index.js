// The filter of the runs, whose state is in the URL's fragment, and the choice of two runs.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const NAMES = ["campaign", "system", "verdict"];
  const form = document.getElementById("filter");
  if (!form) return;
  document.documentElement.classList.add("scripted");
  const filtered = [...document.querySelectorAll("[data-campaign]")];
  const rows = filtered.filter((one) => one.closest("#runs"));
  const failures = filtered.filter((one) => one.classList.contains("failure"));

  // A part without a value, such as the system of a run without a verdict, is of no system.
  const fits = (one, chosen) => NAMES.every((name) => !chosen[name] || !(name in one.dataset) || one.dataset[name] === chosen[name]);

  function apply(chosen) {
    for (const one of filtered) one.hidden = !fits(one, chosen);
    failures.filter((one) => !one.hidden).slice(1).forEach((one) => { one.hidden = true; });
    for (const one of document.querySelectorAll("[data-none]")) {
      const within = document.getElementById(one.dataset.none);
      const some = filtered.some((part) => !part.hidden && within.contains(part));
      one.hidden = some;
      within.hidden = !some;
    }
    const shown = rows.filter((one) => !one.hidden).length;
    document.getElementById("shown").textContent = `${shown} of ${rows.length} runs`;
    document.dispatchEvent(new CustomEvent("ackproof-system", { detail: chosen.system }));
  }

  // The fragment holds the choice, so that a link to the page has it.
  function read() {
    const told = new URLSearchParams(location.hash.slice(1));
    for (const name of NAMES) {
      const select = form.elements[name], wanted = told.get(name) ?? "";
      select.value = [...select.options].some((one) => one.value === wanted) ? wanted : "";
    }
    apply(chosen());
  }

  const chosen = () => Object.fromEntries(NAMES.map((name) => [name, form.elements[name].value]));

  form.addEventListener("change", () => {
    const told = new URLSearchParams(Object.entries(chosen()).filter(([, value]) => value));
    history.replaceState(null, "", `#${told}`);
    apply(chosen());
  });
  form.addEventListener("reset", () => {
    history.replaceState(null, "", "#");
    requestAnimationFrame(() => apply(chosen()));
  });
  addEventListener("hashchange", read);
  read();

  // Without a server, the page names the command that compares the two chosen runs.
  const command = document.getElementById("compare-command");
  if (!command) return;
  const quoted = (text) => (/^[\w@%+=:,.\/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const pair = document.getElementById("pair");
  const tell = () => {
    const names = ["a", "b"].map((name) => pair.querySelector(`input[name=${name}]:checked`)?.dataset.name ?? name.toUpperCase());
    command.textContent = `ackproof compare ${names.map((name) => quoted(`./${name}`)).join(" ")} --html compare.html`;
  };
  pair.addEventListener("change", tell);
  tell();
});
