// The live page of a run: each event holds the whole state. Everything that is written into the
// page is text, never markup.
"use strict";
(() => {
  const settings = JSON.parse(document.getElementById("settings").textContent);
  const media = matchMedia("(prefers-color-scheme: dark)");
  const at = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const count = (n) => n.toLocaleString("en-US", { maximumFractionDigits: n < 10 ? 1 : 0 });
  const seconds = (s) => (s < 120 ? `${count(s)} s` : `${Math.floor(s / 60)} min ${count(Math.floor(s % 60))} s`);

  function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  function write(id, text) {
    if (at(id).textContent !== text) at(id).textContent = text;
  }

  // Fill the table's body with rows of cells: texts, or elements. A column of numbers is to the right.
  function rows(id, lines, none) {
    const table = at(id), numeric = [...table.tHead.rows[0].cells].map((cell) => cell.className);
    table.parentElement.hidden = lines.length === 0;
    if (none) at(none).hidden = lines.length > 0;
    table.tBodies[0].replaceChildren(...lines.map((cells) => element("tr", {},
      ...cells.map((cell, n) => element("td", { className: numeric[n] }, cell)))));
  }

  // --- the charts

  class Chart {
    constructor(box, kinds, words) {
      Object.assign(this, { box, kinds, words, plot: null, shown: null, bands: [] });
      new ResizeObserver(() => this.plot?.setSize({ width: box.clientWidth, height: 170 })).observe(box);
      media.addEventListener("change", () => { this.plot?.destroy(); this.plot = null; this.draw(); });
    }

    show(curves, bands) {
      Object.assign(this, { shown: curves, bands });
      this.draw();
    }

    get data() {
      const { start, width } = this.shown, bins = Math.max(...this.kinds.map((kind) => this.shown[kind].length));
      const values = (kind) => (this.shown[kind].length ? this.shown[kind] : new Array(bins).fill(0));
      return [Array.from({ length: bins }, (_, n) => start + (n + 0.5) * width), ...this.kinds.map(values)];
    }

    draw() {
      if (!this.shown || !this.box.clientWidth) return;
      if (this.plot) { this.plot.setData(this.data); return; }
      const axis = { stroke: colour("faint"), grid: { stroke: colour("line") }, ticks: { stroke: colour("line") } };
      const series = this.kinds.map((kind, n) => ({
        label: this.words[n], stroke: colour(`series-${n + (kind === "ok" ? 0 : 1)}`), width: 1.5,
        dash: n ? [6, 3] : [], value: (_, value) => (value == null ? "" : `${count(value)}/s`),
      }));
      this.plot = new uPlot({
        width: this.box.clientWidth, height: 170, cursor: { sync: { key: "live" } },
        scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
        axes: [{ ...axis, values: (_, ticks) => ticks.map(seconds) }, { ...axis, size: 58, values: (_, ticks) => ticks.map(count) }],
        series: [{ label: "time", value: (_, value) => (value == null ? "" : seconds(value)) }, ...series],
        hooks: { drawClear: [(plot) => this.shade(plot)] },
      }, this.data, this.box);
    }

    // Shade the times of faults behind the curves.
    shade(plot) {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.fillStyle = colour("not-guaranteed");
      for (const band of this.bands) {
        const left = Math.max(bbox.left, plot.valToPos(band.since, "x", true));
        const right = band.until == null ? bbox.left + bbox.width : plot.valToPos(band.until, "x", true);
        const end = Math.min(bbox.left + bbox.width, right);
        if (end > left) ctx.fillRect(left, bbox.top, end - left, bbox.height);
      }
      ctx.restore();
    }
  }

  const charts = [
    new Chart(at("acks"), ["ok"], ["acknowledged"]),
    new Chart(at("failures"), ["fail", "info"], ["failed", "unknown outcome"]),
  ];

  function rates(state) {
    at("no-rates").hidden = state.curves != null;
    if (!state.curves) return;
    for (const chart of charts) chart.show(state.curves, state.bands);
    const last = (kind) => state.curves[kind].at(-1) ?? 0;
    const bin = state.curves.width === 1 ? "the last complete second" : `the last ${state.curves.width} s`;
    write("rates-told", `In ${bin}: ${count(last("ok"))} acknowledged, ${count(last("fail"))} failed and ${count(last("info"))} with an unknown outcome a second. Shaded: times with an open fault.`);
  }

  // --- the tables

  function processes(state) {
    const cell = (one) => (one.ended_alone ? element("span", { className: "alone", textContent: one.state }) : one.state);
    rows("processes", [...state.servers, ...state.clients].map((one) => [one.name, cell(one)]));
    write("no-servers", state.servers.length ? "" : state.observed_servers
      ? "No server was observed so far." : "The servers of an external cluster are not observed.");
  }

  function partitions(state) {
    const leader = (one) => (one.leader == null ? "not known" : one.leader < 0 ? "none" : `broker ${one.leader}`);
    const lines = state.partitions.map((one) => [one.name, leader(one), `${one.isr.length}: ${one.isr.join(", ")}`]);
    const more = state.partitions_all - lines.length;
    rows("partitions", more > 0 ? [...lines, [`and ${more} more`, "", ""]] : lines, "no-partitions");
  }

  function findings(state) {
    const found = state.findings ?? [], list = at("findings"), hidden = (state.findings_all ?? 0) - found.length;
    const texts = found.map((one) => `${seconds(one.at_s)}  ${one.text}`);
    if (hidden > 0) texts.unshift(`${hidden} earlier ones`);
    texts.push(...state.unreadable.map((text) => `not read: ${text}`));
    at("no-findings").hidden = texts.length > 0;
    write("no-findings", state.findings == null ? "Not known: the history cannot be read." : "None so far.");
    if ([...list.children].map((one) => one.textContent).join("\n") !== texts.join("\n"))
      list.replaceChildren(...texts.map((text) => element("li", { textContent: text })));
  }

  // --- the logs of the servers: folded by server, which stays as the reader has left it

  let logs = [];
  function serverLogs() {
    at("no-logs").hidden = logs.length > 0;
    at("log-filter").hidden = logs.length === 0;
    const wanted = at("words").value.toLowerCase(), box = at("server-logs");
    const there = new Map([...box.children].map((one) => [one.dataset.name, one]));
    for (const log of logs) {
      const lines = log.lines.filter((line) => line.toLowerCase().includes(wanted));
      let one = there.get(log.name);
      if (!one) {
        const pre = element("pre", { tabIndex: 0 });
        pre.setAttribute("role", "region");
        pre.setAttribute("aria-label", `Log of ${log.name}`);
        one = element("details", {}, element("summary"), pre);
        one.dataset.name = log.name;
        box.append(one);
      }
      there.delete(log.name);
      const [summary, pre] = one.children, text = lines.join("\n") || "no such line among the newest";
      const head = `${log.name}: ${lines.length} of the newest ${log.lines.length} lines`;
      if (summary.textContent !== head) summary.textContent = head;
      if (pre.textContent === text) continue;
      const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
      pre.textContent = text;
      if (atEnd) pre.scrollTop = pre.scrollHeight;
    }
    for (const one of there.values()) one.remove();
  }
  at("words").addEventListener("input", serverLogs);

  function show(state) {
    write("title", `${state.campaign}, run ${state.number} of ${state.runs}`);
    document.title = `${state.step} · ${state.campaign} · Ackproof`;
    write("facts", `${state.system} · seed ${state.seed} · ${settings.directory}`);
    write("step", state.ending ? "ended" : state.step);
    const sum = (key) => state.cells.reduce((all, one) => all + one[key], 0);
    const sent = state.cells.length ? `, ${count(sum("acked"))} acknowledged of ${count(sum("sent"))} sent` : "";
    write("figures", `${seconds(state.elapsed_s)} since the start${sent}`);
    rows("faults", state.open_faults.map((one) => [one.label,
      one.left_s == null ? "" : one.left_s > 0 ? seconds(one.left_s) : "due", seconds(one.open_s),
      one.state, one.target]), "no-faults");
    rates(state);
    rows("cells", state.cells.map((one) => [one.name, ...["sent", "acked", "failed", "unknown"].map((key) => count(one[key]))]));
    findings(state);
    processes(state);
    partitions(state);
    // After the run its servers are gone, and their last lines stay.
    if (state.server_logs.length) { logs = state.server_logs; }
    serverLogs();
    const log = state.log.join("\n");
    write("log", log || "no line so far");
  }

  // --- the end

  // The server ends soon after the run. So the page keeps a copy of the report for its link.
  async function report() {
    const link = at("report");
    link.href = settings.report;
    link.textContent = "Open the report";
    try {
      const answer = await fetch(settings.report);
      if (answer.ok) link.href = URL.createObjectURL(await answer.blob());
    } catch (error) {
      console.info("the report stays on the disk", error);
    }
  }

  function end(state) {
    events.close();
    write("step", "ended");
    write("connection", "");
    at("hint").hidden = false;
    if (state.ending !== "reported") {
      write("hint", `The run has ended without a report. Check what it has recorded: ackproof check ${settings.directory}`);
      return;
    }
    at("ending").hidden = false;
    at("verdict").hidden = state.verdict == null;
    at("verdict").className = `badge ${/^[a-z-]+$/.test(state.verdict ?? "") ? state.verdict : ""}`;
    write("verdict", state.verdict ?? "");
    write("hint", `The report is ${settings.directory}/report.html. To open it later: ackproof serve ${settings.directory}`);
    report();
  }

  const events = new EventSource(settings.events);
  events.onopen = () => write("connection", "");
  events.onerror = () => write("connection", "No connection to the run. It has ended, or its server has; trying again.");
  events.onmessage = (message) => {
    const state = JSON.parse(message.data);
    if (state.campaign) show(state);
    if (state.ending) end(state);
  };
})();
