// The charts of figures from night to night, drawn with uPlot from the JSON beside them. All charts
// of a campaign have one cursor. Everything that is written into the page is text, never markup.
"use strict";
(() => {
  const HEIGHT = 84, SERIES = 4, MARGIN = 8;
  const media = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const drawn = [];

  function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  class Chart {
    constructor(figure) {
      const { systems, looks, span, nights } = JSON.parse(figure.querySelector("script").textContent);
      Object.assign(this, { systems, looks, span: span.filter(Boolean).join(" to "), key: figure.parentElement.id });
      this.nights = nights.map(([system, value, hollow, told, link]) => ({ system, value, hollow, told, link }));
      this.most = Math.max(0, ...this.nights.map((one) => one.value ?? 0));
      this.box = element("div", { className: "chart-drawn", tabIndex: 0 });
      this.box.setAttribute("role", "group");
      this.box.setAttribute("aria-label", `${figure.querySelector("svg").getAttribute("aria-label")}. Arrow keys move to a run, Enter opens its report.`);
      this.told = element("p", { className: "chart-told" });
      this.box.addEventListener("keydown", (event) => this.pressed(event));
      figure.append(this.box, this.told);
      figure.classList.add("chart-on");
      this.draw();
      new ResizeObserver(() => this.plot.setSize({ width: this.box.clientWidth, height: HEIGHT })).observe(this.box);
      media.addEventListener("change", () => { this.plot.destroy(); this.draw(); });
    }

    // Return the values of a system: null interrupts its line, undefined is a night of another system.
    line(system) {
      return this.nights.map((one) => {
        if (one.system != null && one.system !== system) return undefined;
        return one.system == null || one.hollow ? null : one.value;
      });
    }

    bounds(system) {
      return this.nights.map((one) => (one.system === system && one.hollow ? one.value : null));
    }

    get series() {
      const paper = colour("paper");
      return this.systems.flatMap((name, system) => {
        const stroke = colour(`series-${this.looks[system] % SERIES}`), dash = this.looks[system] < SERIES ? [] : [5, 3];
        return [
          { stroke, dash, width: 1.6, points: { show: true, size: 6, fill: stroke, stroke } },
          { stroke, paths: () => null, points: { show: true, size: 7, fill: paper, stroke, width: 1.6 } },
        ];
      });
    }

    draw() {
      const data = this.systems.flatMap((_, system) => [this.line(system), this.bounds(system)]);
      this.plot = new uPlot({
        width: this.box.clientWidth || 272, height: HEIGHT, padding: [MARGIN, 0, MARGIN, 0], legend: { show: false },
        cursor: {
          y: false, drag: { x: false, y: false, setScale: false }, sync: { key: this.key },
          points: { size: 9 }, bind: { click: () => () => this.follow() },
        },
        scales: { x: { time: false, range: [-0.5, this.nights.length - 0.5] }, y: { range: [0, this.most || 1] } },
        axes: [{ show: false }, { show: false }], series: [{}, ...this.series],
        hooks: { drawClear: [(plot) => this.ground(plot)], setCursor: [(plot) => this.tell(plot.cursor.idx)] },
      }, [this.nights.map((_, night) => night), ...data], this.box);
      this.show(this.shown ?? "");
    }

    // Draw the limits, and a dashed line for each night with an unknown figure.
    ground(plot) {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.lineWidth = devicePixelRatio;
      const path = (hue, dash, x0, y0, x1, y1) => {
        ctx.strokeStyle = colour(hue);
        ctx.setLineDash(dash.map((one) => one * devicePixelRatio));
        ctx.beginPath();
        ctx.moveTo(x0, y0);
        ctx.lineTo(x1, y1);
        ctx.stroke();
      };
      for (const y of [bbox.top, bbox.top + bbox.height]) path("line", [], bbox.left, y, bbox.left + bbox.width, y);
      this.nights.forEach((one, night) => {
        if (one.value != null || !this.isShown(one)) return;
        const x = plot.valToPos(night, "x", true);
        path("faint", [2, 4], x, bbox.top, x, bbox.top + bbox.height);
      });
      ctx.restore();
    }

    isShown(night) {
      return !this.shown || night.system == null || this.systems[night.system] === this.shown;
    }

    // Show one system alone, or all of them.
    show(system) {
      this.shown = system;
      this.systems.forEach((name, at) => {
        for (const series of [2 * at + 1, 2 * at + 2]) this.plot.setSeries(series, { show: !system || name === system });
      });
    }

    tell(night) {
      const one = night == null ? null : this.nights[night];
      this.night = night;
      this.told.textContent = one && this.isShown(one) ? one.told : this.span;
    }

    pressed(event) {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], last = this.nights.length - 1;
      if (event.key === "Enter") this.follow();
      if (!by) return;
      event.preventDefault();
      this.told.setAttribute("aria-live", "polite");
      const night = Math.min(last, Math.max(0, this.night == null ? last : this.night + by));
      this.plot.setCursor({ left: this.plot.valToPos(night, "x"), top: 0 });
    }

    follow() {
      const link = this.nights[this.night ?? -1]?.link;
      if (link) location.href = link;
    }
  }

  // The filter of the index shows one system alone.
  let system = "";
  document.addEventListener("ackproof-system", (event) => {
    system = event.detail;
    for (const chart of drawn) chart.show(system);
  });

  // A chart is drawn when it comes near the window, so that many campaigns open as fast as one.
  document.addEventListener("DOMContentLoaded", () => {
    const near = new IntersectionObserver((entries) => {
      for (const { target } of entries.filter((one) => one.isIntersecting)) {
        near.unobserve(target);
        const chart = new Chart(target);
        chart.show(system);
        drawn.push(chart);
      }
    }, { rootMargin: "800px" });
    for (const figure of document.querySelectorAll(".chart")) near.observe(figure);
  });
})();
