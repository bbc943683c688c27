"use strict";
// The pages work without this file. It adds live progress, the slider of thresholds, copying, and a look at the keys.

(function watchJob() {
  const box = document.querySelector("[data-job]");
  if (!box) return;
  const address = box.dataset.job;
  const part = (name) => box.querySelector(`[data-${name}]`);
  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1) + ".";
  let misses = 0;
  async function look() {
    let told;
    try {
      const answer = await fetch(`${address}/state`, { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      told = await answer.json();
      misses = 0;
    } catch (problem) {
      misses += 1;
      if (misses > 5) {
        part("stage").textContent = "The app does not answer any more. Was it ended?";
        return;
      }
      setTimeout(look, 1000);
      return;
    }
    if (told.state !== "running") {
      window.location.replace(address);
      return;
    }
    const stage = capital(told.stage);
    if (part("stage").textContent !== stage) part("stage").textContent = stage;
    part("fraction").value = told.fraction;
    part("left").textContent = "Time left: " + (told.left || "still measuring");
    part("seconds").textContent = `${told.seconds.toFixed(0)} seconds so far.`;
    const list = part("stages");
    while (list.children.length < told.stages.length) {
      const done = told.stages[list.children.length];
      const item = document.createElement("li");
      item.textContent = `${done.name} `;
      const seconds = document.createElement("span");
      seconds.className = "muted";
      seconds.textContent = `${done.seconds} s`;
      item.append(seconds);
      list.append(item);
    }
    setTimeout(look, 500);
  }
  look();
})();

(function slideThreshold() {
  const box = document.querySelector("[data-slider]");
  if (!box) return;
  const costs = JSON.parse(box.querySelector("[data-costs]").textContent);
  if (!costs.length) return;
  const field = box.querySelector("#risk-above");
  const range = box.querySelector("[data-range]");
  const told = box.querySelector("[data-cost]");
  const whole = new Intl.NumberFormat("en");
  const percent = (share) => (100 * share).toLocaleString("en", { maximumSignificantDigits: 2 });
  function show(position) {
    const cost = costs[Math.min(Math.max(position, 0), costs.length - 1)];
    told.querySelector("[data-records]").textContent = `${whole.format(cost.records)} (${percent(cost.share)} %)`;
    told.querySelector("[data-left]").textContent =
      cost.left.toLocaleString("en", { maximumFractionDigits: cost.left < 10 ? 1 : 0 });
    told.querySelector("[data-stuck]").textContent = whole.format(cost.stuck);
  }
  function chosen() {
    const radio = document.querySelector('input[name="way"][value="risk_above"]');
    if (radio) radio.checked = true;
  }
  range.addEventListener("input", () => {
    field.value = String(Number(range.value) / 100);
    show(Number(range.value));
    chosen();
  });
  field.addEventListener("input", () => {
    const threshold = Number(field.value);
    if (field.value.trim() !== "" && threshold >= 0 && threshold <= 1) {
      range.value = String(Math.round(threshold * 100));
      show(Math.round(threshold * 100));
    }
    chosen();
  });
  range.hidden = false;
  told.hidden = false;
  box.querySelector("[data-costs-table]").open = false;
  range.value = String(Math.round(Number(field.value) * 100));
  show(Number(range.value));
  for (const [id, way] of [["top", "top"], ["target", "max_population_uniques"]]) {
    const input = document.getElementById(id);
    const radio = document.querySelector(`input[name="way"][value="${way}"]`);
    if (input && radio) input.addEventListener("input", () => { radio.checked = true; });
  }
})();

(function countAtThreshold() {
  const form = document.querySelector("[data-at-least]");
  if (!form) return;
  const counts = JSON.parse(form.querySelector("[data-counts]").textContent);
  const table = document.querySelector("[data-tried]");
  const whole = new Intl.NumberFormat("en");
  form.querySelector("#threshold").addEventListener("input", (event) => {
    const text = event.target.value.trim().replace(",", ".");
    const threshold = Number(text);
    if (text === "" || !(threshold >= 0 && threshold <= 1)) return;
    const at = Math.floor(threshold * 100 + 1e-9);
    table.querySelector("[data-threshold]").textContent = String(at / 100);
    table.querySelector("[data-before]").textContent = whole.format(counts.before[at]);
    table.querySelector("[data-after]").textContent = whole.format(counts.after[at]);
  });
})();

(function lookAtKeys() {
  const form = document.querySelector("[data-keys-form]");
  if (!form) return;
  const told = form.querySelector("[data-keys-told]");
  const population = form.querySelector("#population");
  function show() {
    let cells = 1;
    let keys = 0;
    for (const row of form.querySelectorAll("tr[data-levels]")) {
      const isKey = row.querySelector("select").value.startsWith("key");
      row.classList.toggle("key", isKey);
      if (isKey) {
        keys += 1;
        cells *= Math.max(Number(row.dataset.levels), 1);
      }
    }
    const records = Number(population.dataset.records);
    const size = Number(population.value.replace(/[ ,]/g, ""));
    const share = size >= records && records > 0 ? ` The file holds ${((100 * records) / size).toPrecision(2)} % of the population.` : "";
    const many = cells < 1e15 ? cells.toLocaleString("en") : cells.toExponential(1);
    told.textContent = keys ? `${keys} ${keys === 1 ? "key" : "keys"} with ${many} possible combinations of values.${share}` : "No column is marked as a key yet.";
  }
  form.addEventListener("change", show);
  population.addEventListener("input", show);
  show();
})();

(function manyColumns() {
  const box = document.querySelector("[data-many]");
  if (!box) return;
  const rows = [...document.querySelectorAll("tr[data-column]")];
  const find = box.querySelector("[data-find]");
  const found = box.querySelector("[data-found]");
  const undo = box.querySelector("[data-unmark]");
  const changed = () => box.closest("form").dispatchEvent(new Event("change"));
  let before = [];
  function shown() {
    const wanted = find.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    return rows.filter((row) => wanted.every((word) => row.dataset.column.includes(word)));
  }
  function show() {
    const kept = new Set(shown());
    for (const row of rows) row.hidden = !kept.has(row);
    found.textContent = find.value.trim() ? `${kept.size} of ${rows.length} columns are shown.` : "";
  }
  find.addEventListener("input", show);
  find.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
  box.querySelector("[data-mark]").addEventListener("click", () => {
    const role = box.querySelector("[data-role-of-found]").value;
    const selects = shown().map((row) => row.querySelector("select"));
    before = selects.map((select) => [select, select.value]);
    for (const select of selects) select.value = role;
    undo.hidden = false;
    found.textContent = `${selects.length} columns were marked.`;
    changed();
  });
  undo.addEventListener("click", () => {
    for (const [select, role] of before) select.value = role;
    undo.hidden = true;
    found.textContent = "";
    changed();
  });
  if (!("few" in box.dataset)) box.hidden = false;
})();

(function copyText() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
})();
