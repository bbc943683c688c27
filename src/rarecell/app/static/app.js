"use strict";
// The pages work without this file. It adds live progress, problems beside their fields, the slider of thresholds, copying, a look at the
// keys, and bands whose edges can be dragged.

/** The number that a text means, written with a decimal comma or point and spaces between thousands; NaN if it is none. */
function numberIn(text) {
  const plain = text.replace(/[\s\u00a0\u202f'’_]/g, "");
  return plain === "" ? NaN : Number(/^[^,.]*,[^,.]*$/.test(plain) ? plain.replace(",", ".") : plain);
}

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
    const answer = part("answer");
    if (told.answer && answer.textContent !== told.answer) answer.textContent = told.answer;
    answer.hidden = !told.answer;
    part("enough").hidden = !told.can_end_early;
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

(function showProblemBesideItsField() {
  const problem = document.querySelector("#problem");
  if (!problem) return;
  const field = document.getElementsByName(problem.dataset.field || "")[0];
  if (!field || field.type === "hidden") {
    problem.scrollIntoView({ block: "center", behavior: "instant" });
    return;
  }
  for (let box = field.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", `${field.getAttribute("aria-describedby") || ""} problem`.trim());
  field.after(problem);
  field.focus({ preventScroll: true });
  field.scrollIntoView({ block: "center", behavior: "instant" });
})();

(function slideThreshold() {
  const box = document.querySelector("[data-slider]");
  if (!box) return;
  const costs = JSON.parse(box.querySelector("[data-costs]").textContent);
  if (!costs.length) return;
  const field = box.querySelector("#risk-above");
  const range = box.querySelector("[data-range]");
  const told = box.querySelector("[data-cost]");
  const at = box.querySelector("[data-counted-at]");
  const whole = new Intl.NumberFormat("en");
  function show(position) {
    const cost = costs[Math.min(Math.max(position, 0), costs.length - 1)];
    told.querySelector("[data-records]").textContent = `${whole.format(cost.records)} (${cost.percent})`;
    told.querySelector("[data-left]").textContent =
      cost.left.toLocaleString("en", { maximumFractionDigits: cost.left < 10 ? 1 : 0 });
    const stuck = told.querySelector("[data-stuck]");
    if (stuck) stuck.textContent = whole.format(cost.stuck);
  }
  // Costs are counted in steps of a hundredth; nothing is shown for what is no threshold.
  function follow() {
    const threshold = numberIn(field.value);
    const isOne = threshold >= 0 && threshold <= 1;
    const position = Math.round(100 * threshold);
    told.hidden = !isOne;
    at.hidden = !isOne || Math.abs(100 * threshold - position) < 1e-9;
    if (!isOne) return;
    at.textContent = `Counted at ${position / 100}.`;
    range.value = String(position);
    show(position);
  }
  range.addEventListener("input", () => {
    field.value = String(Number(range.value) / 100);
    follow();
  });
  field.addEventListener("input", follow);
  range.hidden = false;
  box.querySelector("[data-costs-table]").open = false;
  follow();
})();

// Whoever fills in a field of a way chooses that way.
for (const way of document.querySelectorAll(".ways .way")) {
  const radio = way.querySelector('input[name="way"]');
  for (const field of way.querySelectorAll(".inner input")) {
    field.addEventListener("input", () => { radio.checked = true; });
  }
}

(function countAtThreshold() {
  const form = document.querySelector("[data-at-least]");
  if (!form) return;
  const counts = JSON.parse(form.querySelector("[data-counts]").textContent);
  const table = document.querySelector("[data-tried]");
  const whole = new Intl.NumberFormat("en");
  form.querySelector("#threshold").addEventListener("input", (event) => {
    const threshold = numberIn(event.target.value);
    if (!(threshold >= 0 && threshold <= 1)) return;
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
      // Only keys are recoded.
      row.querySelector("input").disabled = !isKey;
      if (isKey) {
        keys += 1;
        cells *= Math.max(Number(row.dataset.levels), 1);
      }
    }
    const records = Number(population.dataset.records);
    const text = population.value.trim();
    const size = /^\d{1,3}([\s\u00a0\u202f'’,.]\d{3})+$|^\d+$/.test(text) ? Number(text.replace(/\D/g, "")) : NaN;
    const share = size >= records && records > 0 ? ` The file holds ${((100 * records) / size).toPrecision(2)} % of the population.` : "";
    const many = cells < 1e15 ? cells.toLocaleString("en") : cells.toExponential(1);
    told.textContent = keys ? `${keys} ${keys === 1 ? "key" : "keys"} with ${many} possible combinations of values.${share}` : "No column is marked as a key yet.";
  }
  form.addEventListener("change", show);
  population.addEventListener("input", show);
  show();
})();

(function whoLivesTogether() {
  const box = document.querySelector("[data-household]");
  if (!box) return;
  const form = box.closest("form");
  const known = form.querySelector("#households_known");
  function show() {
    const rows = [...form.querySelectorAll("tr[data-column]")].filter((row) => row.querySelector("select").value === "household");
    const names = rows.map((row) => row.querySelector("th span").textContent);
    const isKnown = known.value !== "no";
    const answer = names.length ? (isKnown ? "yes" : "unknown") : isKnown ? "open" : "no";
    for (const said of box.querySelectorAll("[data-answer]")) said.hidden = said.dataset.answer !== answer;
    for (const place of box.querySelectorAll("[data-names]")) place.textContent = names.join(" and ");
    for (const button of box.querySelectorAll("button")) {
      const columns = JSON.parse(button.dataset.columns);
      const isSame = columns.length === names.length && columns.every((name, k) => name === names[k]);
      button.setAttribute("aria-pressed", String(isSame && answer === (columns.length ? "yes" : "no")));
    }
  }
  form.addEventListener("change", show);
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

(function dragBands() {
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 640, TOP = 26, BOTTOM = 150, SIDE = 14;
  const whole = new Intl.NumberFormat("en");
  for (const box of document.querySelectorAll("[data-bands]")) {
    const { key, numbers, counts, edges } = JSON.parse(box.querySelector("[data-numbers]").textContent);
    const low = numbers[0], high = numbers[numbers.length - 1];
    const areWhole = numbers.every(Number.isInteger) && edges.every(Number.isInteger);
    const words = box.querySelector("[data-words]");
    const told = box.querySelector("[data-bands-told]");
    let chosen = null;

    const draw = (parent, tag, given) => {
      const made = document.createElementNS(SVG, tag);
      for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
      parent.append(made);
      return made;
    };
    const step = areWhole ? 1 : (high - low) / 200;
    const span = high - low + (areWhole ? 1 : 0);
    const place = (number) => SIDE + ((number - low) / span) * (WIDTH - 2 * SIDE);
    const picture = draw(box.querySelector("[data-picture]"), "svg", { viewBox: `0 0 ${WIDTH} ${BOTTOM + 24}`, class: "picture bands", role: "group", "aria-label": `Records by ${key}, with the edges of bands` });
    const most = Math.max(...counts, 1);
    const room = Math.max(1, (areWhole ? place(low + 1) - place(low) : 3) - 1);
    const bars = numbers.map((number, k) => draw(picture, "rect", { x: place(number), width: room, y: BOTTOM - ((BOTTOM - TOP) * counts[k]) / most, height: ((BOTTOM - TOP) * counts[k]) / most }));
    for (const [number, anchor] of [[low, "start"], [high, "end"]]) {
      draw(picture, "text", { x: anchor === "start" ? SIDE : WIDTH - SIDE, y: BOTTOM + 17, "text-anchor": anchor }).textContent = String(number);
    }

    const round = (number) => (areWhole ? Math.round(number) : Number(number.toPrecision(6)));
    const sorted = () => [...edges].sort((a, b) => a - b);
    function bands() {
      const inside = sorted();
      const found = [...inside, null].map((edge, k) => ({ from: k ? inside[k - 1] : null, to: edge, records: 0 }));
      numbers.forEach((number, k) => { found[inside.filter((edge) => edge <= number).length].records += counts[k]; });
      return found;
    }
    function name({ from, to }) {
      if (from === null) return `below ${to}`;
      if (to === null) return `${from} and above`;
      if (!areWhole) return `${from} to below ${to}`;
      return to - from === 1 ? String(from) : `${from}–${to - 1}`;
    }
    function tell() {
      const inside = sorted();
      words.value = inside.length ? `edges ${inside.join(" ")}` : "as it is";
      told.textContent = inside.length ? `${bands().map((band) => `${name(band)}: ${whole.format(band.records)}`).join(" · ")} records.` : "No edges yet: every value is a level of its own.";
      numbers.forEach((number, k) => bars[k].classList.toggle("other", inside.filter((edge) => edge <= number).length % 2 === 1));
      handles.forEach((handle, k) => {
        const at = edges[k];
        handle.setAttribute("transform", `translate(${place(at)} 0)`);
        handle.setAttribute("aria-valuenow", at);
        const below = bands().find((band) => band.to === at);
        handle.setAttribute("aria-valuetext", `A band begins at ${at}; below it lie ${whole.format(below ? below.records : 0)} records`);
        handle.lastChild.textContent = String(at);
      });
    }
    function move(handle, number) {
      const k = handles.indexOf(handle);
      const wanted = Math.min(Math.max(round(number), round(low + step)), high);
      if (k >= 0 && !edges.some((edge, other) => other !== k && edge === wanted)) {
        edges[k] = wanted;
        tell();
      }
    }
    function remove(handle) {
      const k = handles.indexOf(handle);
      if (k < 0) return;
      handles.splice(k, 1);
      edges.splice(k, 1);
      handle.remove();
      chosen = handles[Math.min(k, handles.length - 1)] || null;
      if (chosen) chosen.focus();
      tell();
    }
    function handleAt() {
      const handle = draw(picture, "g", { class: "edge", tabindex: "0", role: "slider", "aria-label": `Edge of ${key}`, "aria-valuemin": round(low + step), "aria-valuemax": high });
      draw(handle, "rect", { x: -14, width: 28, y: 0, height: BOTTOM, class: "grip" });
      draw(handle, "line", { x1: 0, x2: 0, y1: TOP - 4, y2: BOTTOM });
      draw(handle, "circle", { cx: 0, cy: BOTTOM - 12, r: 8 });
      draw(handle, "text", { x: 0, y: TOP - 10, "text-anchor": "middle" });
      const under = (event) => {
        const frame = picture.getBoundingClientRect();
        return low + (((event.clientX - frame.left) * (WIDTH / frame.width) - SIDE) / (WIDTH - 2 * SIDE)) * span;
      };
      handle.addEventListener("focus", () => { chosen = handle; });
      handle.addEventListener("pointerdown", (event) => {
        handle.setPointerCapture(event.pointerId);
        handle.focus();
        event.preventDefault();
      });
      handle.addEventListener("pointermove", (event) => { if (handle.hasPointerCapture(event.pointerId)) move(handle, under(event)); });
      handle.addEventListener("keydown", (event) => {
        const at = edges[handles.indexOf(handle)];
        const far = 5 * step;
        const to = { ArrowLeft: at - step, ArrowDown: at - step, ArrowRight: at + step, ArrowUp: at + step, PageDown: at - far, PageUp: at + far, Home: low, End: high }[event.key];
        if (to !== undefined) move(handle, to);
        else if (event.key === "Delete" || event.key === "Backspace") remove(handle);
        else return;
        event.preventDefault();
      });
      return handle;
    }
    const handles = edges.map(handleAt);
    box.querySelector("[data-add]").addEventListener("click", () => {
      // The fullest band is cut in two at its middle record.
      const fullest = bands().reduce((best, band) => (band.records > best.records ? band : best));
      const inside = numbers.map((number, k) => [number, counts[k]]).filter(([number]) => (fullest.from === null || number >= fullest.from) && (fullest.to === null || number < fullest.to));
      let before = 0;
      const middle = inside.find(([, n]) => (before += n) * 2 >= fullest.records);
      const start = inside.length > 1 ? (middle[0] === inside[0][0] ? inside[1][0] : middle[0]) : null;
      if (start === null || edges.includes(start)) return;
      edges.push(start);
      handles.push(handleAt());
      tell();
      handles[handles.length - 1].focus();
    });
    box.querySelector("[data-remove]").addEventListener("click", () => remove(chosen || handles[handles.length - 1]));
    tell();
    box.hidden = false;
  }
})();
