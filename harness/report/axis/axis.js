// The time axis of each run: charts with one cursor and one zoom, drawn with uPlot from the JSON
// beside them. Everything that is written into the page is text, never markup.
"use strict";
(() => {
  const GUTTER = 58, EDGE_RIGHT = 16, PLOT = 150, ROW = 36, BAR = 17, LINES_MAX = 12, ROWS_FIRST = 12, EDGE = 6, LONG = 600;
  const SERIES = 4, DASHES = [[], [7, 3], [2, 3]];
  const MINUTES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];
  const media = matchMedia("(prefers-color-scheme: dark)");

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const series = (n) => colour(`series-${n % SERIES}`);
  const count = (n) => n.toLocaleString("en-US", { maximumFractionDigits: n < 10 ? 1 : 0 });
  const seconds = (s) => `${s.toLocaleString("en-US", { maximumFractionDigits: 2 })} s`;
  const two = (n) => String(n).padStart(2, "0");
  const milliseconds = (ms) => (ms == null ? "none" : ms >= 1000 ? `${+(ms / 1000).toPrecision(3)} s` : `${+ms.toPrecision(3)} ms`);
  const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);

  function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  // Return the values of all bins from the pairs of those that are not 0.
  function spread(pairs, bins) {
    const all = new Array(bins).fill(0);
    for (const [bin, value] of pairs ?? []) all[bin] = value;
    return all;
  }

  function added(curves, bins) {
    const all = new Array(bins).fill(0);
    for (const curve of curves) curve.forEach((value, bin) => { all[bin] += value; });
    return all;
  }

  // Return the last span that has begun at a time.
  function spanAt(spans, time) {
    let found = null;
    for (const span of spans) if (span.since <= time) found = span; else break;
    return found;
  }

  // Return the state of a partition by the names of its fields, in the order of the document.
  const named = ([since, leader, epoch, isr, needed, changes]) => ({ since, leader, epoch, isr, needed, changes });

  class Axis {
    constructor(box, number) {
      this.box = box;
      this.doc = JSON.parse(box.querySelector("script").textContent);
      for (const one of this.doc.partitions) one.spans = one.spans?.map(named);
      this.key = `axis-${number}`;
      this.length = this.doc.bins * this.doc.bin_s;
      this.view = [0, this.length];
      this.bin = null;
      this.row = null;
      this.cell = "";
      this.everyRow = false;
      this.charts = [];
      box.append(this.tools(), this.lanes(), (this.panels = element("div")));
      box.tabIndex = 0;
      box.addEventListener("keydown", (event) => this.pressed(event));
      this.build();
      new ResizeObserver(() => this.fit()).observe(box);
      media.addEventListener("change", () => this.build());
    }

    // Return a time on the axis in words: "12.5 s", or "1:02:03" in a long run.
    words(time) {
      if (this.length <= LONG) return seconds(time);
      const whole = Math.round(time);
      return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
    }

    get width() { return this.panels.clientWidth; }
    get cells() { return this.doc.cells.filter((one) => !this.cell || one.name === this.cell); }

    // --- the parts around the charts

    tools() {
      const button = (text, words, act) => {
        const made = element("button", { type: "button", textContent: text, title: words, onclick: act });
        made.setAttribute("aria-label", words);
        return made;
      };
      const choice = element("select", { onchange: () => { this.cell = choice.value; this.build(); } },
        element("option", { value: "", textContent: `all ${this.doc.cells.length} cells` }),
        ...this.doc.cells.map((one) => element("option", { value: one.name, textContent: one.title, title: one.name })));
      const cells = this.doc.cells.length > 1 ? [element("label", {}, "Cell ", choice)] : [];
      this.shown = element("span", { className: "axis-view" });
      this.told = element("p", { className: "axis-told" });
      return element("div", { className: "axis-tools" },
        element("div", { className: "axis-buttons" }, ...cells,
          button("+", "Zoom in", () => this.scale(0.5)), button("\u2212", "Zoom out", () => this.scale(2)),
          button("\u25c0", "Move to earlier times", () => this.move(-0.5)),
          button("\u25b6", "Move to later times", () => this.move(0.5)),
          button("Whole run", "Show the whole run", () => this.show(0, this.length)), this.shown),
        this.told);
    }

    lanes() {
      const lanes = Math.max(0, ...this.doc.faults.map((one) => one.lane + 1));
      this.bands = element("div", { className: "axis-lanes" });
      this.bands.style.height = `${lanes * 1.7}rem`;
      this.links = this.doc.faults.map((fault) => {
        const proven = fault.proven ? "" : ", effect not proven";
        const until = fault.until == null ? "not proven healed" : `to ${this.words(fault.until)}`;
        const stops = fault.stops.map((stop) =>
          `; ${stop.server} down from ${this.words(stop.since)} ${stop.until == null ? "on" : `to ${this.words(stop.until)}`}`);
        const words = `${fault.label} on ${fault.servers}, from ${this.words(fault.since)} ${until}${proven}${stops.join("")}`;
        const link = element("a", { href: `#${fault.anchor}`, title: words, textContent: fault.label });
        link.setAttribute("aria-label", words);
        link.style.top = `${fault.lane * 1.7}rem`;
        if (!fault.proven) link.className = "axis-unproven";
        link.append(...fault.stops.map(() => element("i", {})));
        return link;
      });
      this.bands.append(...this.links);
      return lanes ? element("div", {}, element("h3", { textContent: "Faults" }), this.bands) : "";
    }

    place() {
      const [from, to] = this.view, width = Math.max(1, this.width - GUTTER - EDGE_RIGHT);
      const x = (time) => ((time - from) / (to - from)) * width;
      this.doc.faults.forEach((fault, n) => {
        const until = fault.until ?? this.length, link = this.links[n];
        const left = Math.max(0, x(fault.since)), right = Math.min(width, x(until));
        link.hidden = until < from || fault.since > to;
        link.style.left = `${Math.min(left, width - 6)}px`;
        link.style.width = `${Math.max(6, right - left)}px`;
        fault.stops.forEach((stop, m) => {
          const began = Math.max(left, x(stop.since)), ended = Math.min(right, x(stop.until ?? until));
          const mark = link.children[m];
          mark.style.left = `${began - left}px`;
          mark.style.width = `${Math.max(0, ended - began)}px`;
        });
      });
      this.shown.textContent = `${this.words(from)} to ${this.words(to)}`;
    }

    // --- what is shown

    show(from, to) {
      const least = Math.min(this.length, 4 * this.doc.bin_s), span = Math.min(this.length, Math.max(least, to - from));
      const begin = Math.min(Math.max(0, from), this.length - span);
      this.view = [begin, begin + span];
      for (const chart of this.charts) chart.setScale("x", { min: this.view[0], max: this.view[1] });
      this.place();
    }

    scale(factor) {
      const [from, to] = this.view, inView = this.bin != null && this.time >= from && this.time <= to;
      const middle = inView ? this.time : (from + to) / 2, span = (to - from) * factor;
      this.show(middle - span / 2, middle + span / 2);
    }

    move(share) {
      const [from, to] = this.view, by = (to - from) * share;
      this.show(from + by, to + by);
    }

    get time() { return (this.bin + 0.5) * this.doc.bin_s; }

    pressed(event) {
      if (event.target !== this.box || event.ctrlKey || event.metaKey || event.altKey) return;
      const act = {
        ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
        ArrowUp: () => this.choose(-1), ArrowDown: () => this.choose(1),
        "+": () => this.scale(0.5), "-": () => this.scale(2), Escape: () => this.show(0, this.length),
      }[event.key];
      if (!act) return;
      event.preventDefault();
      this.told.setAttribute("aria-live", "polite");
      act();
    }

    step(by) {
      const first = Math.floor(this.view[0] / this.doc.bin_s);
      this.bin = Math.min(this.doc.bins - 1, Math.max(0, this.bin == null ? first : this.bin + by));
      if (this.time < this.view[0] || this.time > this.view[1]) this.move(by * 0.5);
      for (const chart of this.charts)
        chart.setCursor({ left: chart.valToPos(this.time, "x"), top: this.row == null ? -1 : 1 }, false);
      this.tell();
    }

    choose(by) {
      const rows = this.rows.length;
      if (rows) this.row = ((this.row ?? (by > 0 ? -1 : rows)) + by + rows) % rows;
      if (this.bin == null) this.step(0); else this.tell();
    }

    moved(chart) {
      if (chart.cursor.event == null || chart.cursor.left < 0) return;
      const time = chart.posToVal(chart.cursor.left, "x");
      this.bin = Math.min(this.doc.bins - 1, Math.max(0, Math.floor(time / this.doc.bin_s)));
      this.row = null;
      if (chart.rowsFrom != null) {
        const place = Math.floor(chart.cursor.top / ROW);
        if (place >= 0 && place < chart.rowCount) this.row = chart.rowsFrom + place;
      }
      this.told.removeAttribute("aria-live");
      this.tell();
    }

    // --- what is told of a moment

    tell() {
      if (this.bin == null) {
        this.told.textContent = "Point at a chart for its figures. Drag to zoom; double-click for the whole run. "
          + "With the keyboard: arrow keys, +, \u2212 and Escape.";
        return;
      }
      const clock = new Date(this.doc.start_ms + 1000 * this.bin * this.doc.bin_s).toISOString().slice(11, 23);
      const parts = [`${this.words(this.bin * this.doc.bin_s)} (${clock} UTC)`, this.traffic(), ...this.damage(), ...this.open()];
      if (this.row != null && this.rows[this.row]) parts.push(this.rows[this.row].tell(this.time));
      else parts.push(...this.short());
      this.told.textContent = parts.filter(Boolean).join(" \u00b7 ");
    }

    traffic() {
      const rate = (curves) => count(sum(curves.map((curve) => curve[this.bin])) / this.doc.bin_s);
      const at = (name) => sum(this.cells.map((one) => spread(one[name], this.doc.bins)[this.bin]));
      const bad = ["failed", "unknown"].map((name) => [at(name), name]).filter(([many]) => many)
        .map(([many, name]) => `, ${count(many / this.doc.bin_s)} ${name}/s`).join("");
      const latency = this.latency, of = (name) => milliseconds(latency[name][this.bin]);
      const percentiles = latency.p50[this.bin] == null ? "" : `; p50 ${of("p50")}, p99 ${of("p99")}, p99.9 ${of("p999")}`;
      return `${rate(this.cells.map((one) => one.acked))} acks/s${bad}${percentiles}`;
    }

    damage() {
      return ["lost", "duplicated"].flatMap((name) => {
        const some = this.cells.map((one) => [one.title, spread(one[name], this.doc.bins)[this.bin]]).filter(([, many]) => many);
        if (!some.length) return [];
        const named = some.slice(0, 3).map(([cell, many]) => `${cell}: ${count(many)}`).join("; ");
        return [`${count(sum(some.map(([, many]) => many)))} ${name} (${named}${some.length > 3 ? "; \u2026" : ""})`];
      });
    }

    open() {
      const time = this.bin * this.doc.bin_s, next = time + this.doc.bin_s;
      const open = this.doc.faults.filter((one) => one.since < next && (one.until ?? Infinity) >= time);
      return open.length ? [`open: ${open.map((one) => one.label).join(", ")}`] : [];
    }

    short() {
      const under = this.rows.filter((row) => row.bad && row.bad(this.time));
      if (!under.length) return [];
      const named = under.slice(0, 2).map((row) => row.tell(this.time)).join("; ");
      return [named + (under.length > 2 ? `; and ${under.length - 2} more rows` : "")];
    }

    get latency() { return this.cell ? this.cells[0].latency : this.doc.latency; }

    // --- the charts

    build() {
      for (const chart of this.charts) chart.destroy();
      this.charts = [];
      this.rows = [];
      this.row = null;
      this.panels.replaceChildren();
      this.sends();
      this.latencies();
      this.losses();
      this.readers();
      this.partitions();
      this.cluster();
      this.place();
      this.tell();
    }

    fit() {
      for (const chart of this.charts)
        if (this.width && chart.width !== this.width) chart.setSize({ width: this.width, height: chart.height });
      this.place();
    }

    panel(title, note = "") {
      const made = element("div", { className: "axis-panel" }, element("h3", { textContent: title }));
      if (note) made.append(element("p", { className: "faint", textContent: note }));
      this.panels.append(made);
      return made;
    }

    // Draw lines or bars: each has a name, a value for each bin, a colour by name, and a dash.
    draw(panel, label, lines, { log = false, values = count } = {}) {
      const key = element("p", { className: "axis-key" });
      lines.forEach((line) => {
        const sign = element("i");
        sign.style.borderTop = `3px ${["solid", "dashed", "dotted"][line.dash ?? 0]} var(--${line.colour})`;
        key.append(element("span", { title: line.full ?? "" }, sign, line.name));
      });
      panel.append(key);
      const times = Array.from({ length: this.doc.bins + 1 }, (_, bin) => bin * this.doc.bin_s);
      const options = this.options(PLOT, {
        y: log ? { distr: 3 } : { range: (_, __, high) => [0, high > 0 ? high * 1.05 : 1] },
      }, { values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : values(tick))), size: GUTTER }, lines.map((line) => ({
        stroke: () => colour(line.colour), width: line.bars ? 1 : 1.5, dash: DASHES[line.dash ?? 0],
        fill: line.bars && !line.hollow ? () => colour(line.colour) : undefined,
        paths: line.bars ? uPlot.paths.bars({ size: [1, Infinity, 3], align: 1 }) : uPlot.paths.stepped({ align: 1 }),
        points: { show: false }, spanGaps: false,
      })));
      this.add(panel, label, options, [times, ...lines.map((line) => [...line.data, line.bars ? null : line.data.at(-1)])]);
    }

    options(height, scales, yAxis, some) {
      const axis = { stroke: () => colour("faint"), font: "11px system-ui, sans-serif", ticks: { show: false } };
      const grid = { stroke: () => colour("line"), width: 1 };
      return {
        width: Math.max(200, this.width), height, legend: { show: false }, series: [{}, ...some],
        padding: [6, EDGE_RIGHT, 0, 0],
        scales: { x: { time: false, range: () => this.view }, ...scales },
        axes: [
          { ...axis, grid, size: 26, space: 70, values: (_, ticks) => ticks.map((tick) => this.words(tick)), incrs: this.length <= LONG ? undefined : MINUTES },
          { ...axis, grid, ...yAxis },
        ],
        cursor: {
          y: false, points: { show: false }, drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => () => { this.show(0, this.length); return null; } },
          sync: { key: this.key, scales: ["x", null], filters: { pub: (type) => ["mousemove", "mouseleave"].includes(type), sub: () => true } },
        },
        hooks: {
          drawClear: [(chart) => this.shade(chart)],
          setSelect: [(chart) => this.selected(chart)],
          setCursor: [(chart) => this.moved(chart)],
        },
      };
    }

    add(panel, label, options, data) {
      const plot = element("div", { className: "axis-plot" });
      plot.setAttribute("role", "img");
      plot.setAttribute("aria-label", label);
      panel.append(plot);
      const chart = new uPlot(options, data, plot);
      this.charts.push(chart);
      return chart;
    }

    selected(chart) {
      const { left, width } = chart.select;
      if (width < 4) return;
      const [from, to] = [chart.posToVal(left, "x"), chart.posToVal(left + width, "x")];
      chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      this.show(from, to);
    }

    // Draw the bands of the faults behind everything, with a line where each begins.
    shade(chart) {
      const { ctx, bbox } = chart, [from, to] = this.view;
      ctx.save();
      ctx.fillStyle = colour("fault");
      // Lines of narrow bands would hide what is drawn over them.
      for (const fault of this.doc.faults) {
        const until = fault.until ?? this.length;
        if (until < from || fault.since > to) continue;
        const left = chart.valToPos(Math.max(from, fault.since), "x", true);
        const right = chart.valToPos(Math.min(to, until), "x", true);
        ctx.globalAlpha = 0.13;
        ctx.fillRect(left, bbox.top, Math.max(1, right - left), bbox.height);
        ctx.globalAlpha = 0.6;
        if (fault.since >= from && right - left > EDGE) ctx.fillRect(left, bbox.top, 1, bbox.height);
      }
      ctx.restore();
    }

    sends() {
      const { cells, doc } = this, per = (curve) => curve.map((value) => value / doc.bin_s);
      const each = cells.length <= LINES_MAX ? cells.map((one) => [one.title, one.acked, one.name]) : [["acknowledged, all cells", added(cells.map((one) => one.acked), doc.bins)]];
      const lines = each.map(([name, curve, full], n) => ({ full,
        name: cells.length > 1 ? name : `acknowledged (${name})`, data: per(curve), colour: `series-${n % SERIES}`, dash: Math.floor(n / SERIES) % 3,
      }));
      const bad = added(cells.flatMap((one) => [spread(one.failed, doc.bins), spread(one.unknown, doc.bins)]), doc.bins);
      lines.push({ name: "failed or unknown", data: per(bad), colour: "fail-ink", dash: 2 });
      const most = Math.max(...lines.flatMap((line) => line.data));
      this.draw(this.panel("Sends a second"), `Acknowledged and failed sends a second; at most ${count(most)} in a cell`, lines);
    }

    latencies() {
      const { latency } = this, panel = this.panel("Ack latency");
      if (latency.p50.every((one) => one == null)) return panel.append(element("p", { textContent: "Not observed: no acknowledged send with a known beginning." }));
      const lines = [["p50", "p50"], ["p99", "p99"], ["p999", "p99.9"]].map(([key, name], n) => ({ name, data: latency[key], colour: `series-${n}`, dash: n }));
      const most = Math.max(...latency.p999.map((one) => one ?? 0));
      this.draw(panel, `Latency of acknowledged sends by percentile; the highest p99.9 is ${milliseconds(most)}`, lines, { log: true, values: milliseconds });
    }

    losses() {
      const { cells, doc } = this, panel = this.panel("Lost and duplicated records, when they were acknowledged");
      const unknown = cells.filter((one) => !one.whole).map((one) => one.title);
      if (unknown.length) panel.append(element("p", { textContent: `Not known in full for: ${unknown.join("; ")}.` }));
      const all = (name) => added(cells.map((one) => spread(one[name], doc.bins)), doc.bins);
      const [lost, duplicated] = [all("lost"), all("duplicated")], [many, twice] = [sum(lost), sum(duplicated)];
      if (!many && !twice) {
        if (unknown.length < cells.length) panel.append(element("p", { textContent: unknown.length ? "In the other cells, no record was lost or duplicated." : "No record was lost or duplicated." }));
        return;
      }
      const bars = (data) => data.map((value) => value || null);
      this.draw(panel, `${count(many)} lost and ${count(twice)} duplicated records, at the times of their acks`, [
        { name: `lost (${count(many)})`, data: bars(lost), colour: "fail-ink", bars: true },
        { name: `duplicated (${count(twice)})`, data: bars(duplicated), colour: "series-3", bars: true, hollow: true, dash: 1 },
      ]);
    }

    readers() {
      const mine = this.doc.readers.filter((one) => !this.cell || one.cell === this.cell);
      const panel = this.panel("Consumers");
      if (this.doc.readers_damage) return panel.append(element("p", { textContent: `Not observed: ${this.doc.readers_damage}` }));
      if (!mine.length) return panel.append(element("p", { textContent: this.cell ? "This cell has no consumers." : "This run has no consumers." }));
      for (const one of mine.filter((reader) => reader.why)) panel.append(element("p", { className: "faint", textContent: `${one.name}, not observed: ${one.why}.` }));
      const kinds = [["lag", "lag"], ["undelivered", "acknowledged and not yet read"]];
      const few = mine.length * 2 <= LINES_MAX && this.cell;
      const lines = kinds.flatMap(([key, words], n) => {
        const known = mine.filter((one) => one[key]);
        if (few) return known.map((one) => ({ name: `${one.name}: ${words}`, data: one[key], colour: `series-${mine.indexOf(one) % SERIES}`, dash: n }));
        return known.length ? [{ name: `${words}, sum of ${known.length} consumers`, data: added(known.map((one) => one[key]), this.doc.bins), colour: `series-${n}`, dash: n }] : [];
      });
      if (lines.length) this.draw(panel, "Consumer lag, and acknowledged records that were not yet read", lines);
    }

    // --- rows of states

    partitions() {
      const all = this.doc.partitions.filter((one) => !this.cell || one.cell === this.cell);
      const shown = this.everyRow || this.cell ? all : this.first(all);
      const left = this.cell ? 0 : this.doc.partitions_left;
      const panel = this.panel("Leaders and in-sync replicas", "A bar has the leader, its epoch and the ISR, or, if it is narrow, the ISR's size (1 \u00b7 e2 \u00b7 3). Hatched: the ISR is smaller than min.insync.replicas, or there is no leader. A line under a bar: records acknowledged then were lost; in a bar: they are in the log twice.");
      if (shown.length) this.table(panel, "Leader, leader epoch and ISR of each partition", shown.map((one) => this.partition(one)));
      else panel.append(element("p", { textContent: "Not observed." }));
      if (shown.length < all.length) panel.append(element("button", { type: "button", textContent: `Show all ${all.length} partitions`, onclick: () => { this.everyRow = true; this.build(); } }));
      if (left) panel.append(element("p", { className: "faint", textContent: `${count(left)} further partitions had fewer events and are not in this page.` }));
    }

    // Return the partitions with most events, in their order.
    first(all) {
      const most = [...all].sort((a, b) => a.rank - b.rank).slice(0, ROWS_FIRST);
      return all.filter((one) => most.includes(one));
    }

    partition(one) {
      const bad = (span) => span.leader === -1 || (span.isr != null && span.isr.length < span.needed);
      const parts = (span) => ({
        leader: span.leader == null ? "leader not observed" : span.leader < 0 ? "no leader" : `broker-${span.leader}`,
        epoch: span.epoch == null ? "epoch not observed" : `epoch ${span.epoch}`,
        isr: span.isr == null ? "ISR not observed" : `ISR [${span.isr.join(" ")}]`,
      });
      const words = (span) => {
        const { leader, epoch, isr } = parts(span);
        const under = span.isr != null && span.isr.length < span.needed ? ` < ${span.needed}` : "";
        return [`${leader}, ${epoch}, ${isr}${under}`, `${span.leader ?? "?"} \u00b7 e${span.epoch ?? "?"} \u00b7 ${span.isr?.length ?? "?"}${under}`, `${span.leader ?? "?"}`];
      };
      const hue = (span) => (span.leader == null || span.leader < 0 ? "faint" : `series-${span.leader % SERIES}`);
      return this.damaged(one, this.states(one.name, one.spans, words, bad, hue));
    }

    // Return a partition's row with the records that it lost or has twice, below its bar.
    damaged(one, row) {
      const width = this.doc.bin_s, kinds = [["lost", "fail-ink"], ["duplicated", "series-3"]];
      return {
        ...row,
        tell: (time) => {
          const place = Math.floor(time / width);
          const some = kinds.map(([kind]) => [kind, one[kind].find(([bin]) => bin === place)]).filter(([, pair]) => pair);
          return row.tell(time) + some.map(([kind, pair]) => `, ${count(pair[1])} ${kind}`).join("");
        },
        draw: (pen) => {
          row.draw(pen);
          for (const [kind, hue] of kinds) for (const [bin] of one[kind]) pen(bin * width, (bin + 1) * width, [], hue, kind);
        },
      };
    }

    cluster() {
      const rows = this.doc.cluster.map((one) => this.states(one.name, one.spans, (span) => [span.words], (span) => !span.well, () => "series-2"));
      const groups = this.doc.readers.filter((one) => one.marks && (!this.cell || one.cell === this.cell)).map((one) => this.marks(one));
      const note = groups.length ? "Marks of a group are changes of its members' partitions. Numbers of its generations are not recorded." : "";
      this.table(this.panel("Controller, broker sessions and consumer groups", note), "The controller, the brokers' sessions and changes of consumer groups", [...rows, ...groups]);
    }

    states(name, spans, words, bad, hue) {
      const known = spans ?? [];
      const next = (n) => (n + 1 < known.length ? known[n + 1].since : this.length);
      const unseen = (time) => this.doc.unobserved.some(([from, to]) => from <= time && time < to);
      return {
        name,
        bad: (time) => { const span = spanAt(known, time); return span != null && bad(span); },
        tell: (time) => {
          const span = spanAt(known, time);
          return `${name}: ${span ? words(span)[0] : "not observed"}${span && unseen(time) ? " (last known)" : ""}`;
        },
        draw: (pen) => {
          const first = known.length ? known[0].since : this.length;
          if (first > 0) pen(0, first, ["not observed", "?"], "faint", "unseen");
          known.forEach((span, n) => pen(span.since, next(n), words(span), hue(span), bad(span) ? "bad" : ""));
          for (const [from, to] of this.doc.unobserved) pen(from, to, ["not observed", "?"], "faint", "unseen");
        },
      };
    }

    marks(one) {
      return {
        name: one.name,
        tell: (time) => {
          const near = one.marks.filter((mark) => Math.abs(mark.at - time) <= this.doc.bin_s);
          return `${one.name}: ${near.map((mark) => mark.words).join("; ") || "no change"}`;
        },
        draw: (pen) => one.marks.forEach((mark) => pen(mark.at, mark.at, [], "ink", "mark")),
      };
    }

    table(panel, label, rows) {
      const options = this.options(rows.length * ROW + 32, { y: { range: [0, 1] } }, { values: () => [], size: GUTTER, grid: { show: false } }, [{ show: false }]);
      options.hooks.draw = [(chart) => this.paint(chart, rows)];
      const chart = this.add(panel, label, options, [[0, this.length], [null, null]]);
      chart.rowsFrom = this.rows.length;
      chart.rowCount = rows.length;
      this.rows.push(...rows);
    }

    paint(chart, rows) {
      const { ctx, bbox } = chart, ratio = devicePixelRatio, [from, to] = this.view;
      ctx.save();
      ctx.beginPath();
      ctx.rect(0, bbox.top, bbox.left + bbox.width, bbox.height);
      ctx.clip();
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      ctx.setLineDash([]);
      rows.forEach((row, n) => {
        const top = bbox.top + (n * ROW + 15) * ratio;
        row.draw((since, until, words, hue, kind) => {
          if (until < from || since > to) return;
          const left = chart.valToPos(Math.max(from, since), "x", true);
          const width = Math.max(ratio, chart.valToPos(Math.min(to, until), "x", true) - left);
          this.bar(ctx, { left, top, width, height: BAR * ratio, ratio }, words, hue, kind);
        });
        ctx.font = `${11 * ratio}px system-ui, sans-serif`;
        ctx.fillStyle = colour("ink");
        const name = this.shortened(ctx, row.name, bbox.left + bbox.width - 8 * ratio);
        ctx.fillText(name, 4 * ratio, bbox.top + (n * ROW + 7) * ratio);
      });
      ctx.restore();
    }

    // Return a name that fits, without its middle: its end has the number of the partition.
    shortened(ctx, name, width) {
      const end = name.slice(-8);
      let begin = name.length;
      while (begin > 8 && ctx.measureText(`${name.slice(0, begin)}\u2026${end}`).width > width) begin -= 1;
      return ctx.measureText(name).width <= width ? name : `${name.slice(0, begin)}\u2026${end}`;
    }

    bar(ctx, { left, top, width, height, ratio }, words, hue, kind) {
      if (kind === "mark") {
        ctx.fillStyle = colour(hue);
        return ctx.fillRect(left - ratio, top, 2 * ratio, height);
      }
      if (kind === "lost" || kind === "duplicated") {
        ctx.fillStyle = colour(hue);
        return ctx.fillRect(left, top + height - (kind === "lost" ? 0 : 3 * ratio), Math.max(width, 2 * ratio), 3 * ratio);
      }
      ctx.fillStyle = colour("paper");
      ctx.fillRect(left, top, width, height);
      ctx.globalAlpha = 0.28;
      ctx.fillStyle = colour(hue);
      ctx.fillRect(left, top, width, height);
      ctx.globalAlpha = 1;
      if (kind) this.hatch(ctx, left, top, width, height, ratio, kind === "bad" ? "fail-ink" : "faint");
      ctx.fillStyle = colour(kind === "bad" ? "fail-ink" : hue);
      ctx.fillRect(left, top, 1.5 * ratio, height);
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      const fitting = words.find((one) => ctx.measureText(one).width + 10 * ratio <= width);
      if (!fitting) return;
      if (kind) {
        ctx.fillStyle = colour("paper");
        ctx.fillRect(left + 3 * ratio, top + ratio, ctx.measureText(fitting).width + 4 * ratio, height - 2 * ratio);
      }
      ctx.fillStyle = colour("ink");
      ctx.fillText(fitting, left + 5 * ratio, top + height / 2);
    }

    hatch(ctx, left, top, width, height, ratio, name) {
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, top, width, height);
      ctx.clip();
      ctx.beginPath();
      for (let x = left - height; x < left + width; x += 6 * ratio) {
        ctx.moveTo(x, top + height);
        ctx.lineTo(x + height, top);
      }
      ctx.strokeStyle = colour(name);
      ctx.lineWidth = ratio;
      ctx.stroke();
      ctx.restore();
    }
  }

  function start(box, number) {
    try {
      new Axis(box, number);
    } catch (error) {
      box.classList.remove("axis-on"); // The static picture takes its place.
      throw error;
    }
  }

  // A run's charts are built when it comes near the window, so that many runs open as fast as one.
  document.addEventListener("DOMContentLoaded", () => {
    const boxes = [...document.querySelectorAll(".axis")];
    const near = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((one) => one.isIntersecting)) {
        near.unobserve(entry.target);
        start(entry.target, boxes.indexOf(entry.target));
      }
    }, { rootMargin: "1200px" });
    for (const box of boxes) {
      box.classList.add("axis-on");
      near.observe(box);
    }
  });
})();
