// Pan, zoom, highlight, slider and keys. Without it every page still shows all that it shows with it.
"use strict";

const picture = document.querySelector("svg.history");
const scroller = document.getElementById("lanes");
const find = document.querySelector("header input[type=search]");

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    find?.focus();
  }
});

// What has to be moved to be read, and holds nothing to step on, is a place for the keys.
for (const table of document.querySelectorAll("table.facts")) {
  if (table.scrollWidth > table.clientWidth && !table.querySelector("a, button, input")) table.tabIndex = 0;
}

if (picture && scroller) {
  const data = document.getElementById("arcs");
  scroller.addEventListener("scroll", keepAxis, { passive: true });
  if (data) browse(JSON.parse(data.textContent));
  else showNewest();
}

// The times stay in sight, as the names of the lanes do.
function keepAxis() {
  const axis = picture.querySelector(".axis");
  const place = `translate(0 ${scroller.scrollTop * picture.viewBox.baseVal.height / picture.height.baseVal.value})`;
  // What is set is drawn again: to the sides nothing changes.
  if (axis && axis.getAttribute("transform") !== place) axis.setAttribute("transform", place);
}

// The part of the picture that the names of the lanes leave.
function room() {
  return scroller.clientWidth - document.querySelector(".names").offsetWidth;
}

// The snapshot that is selected, or else the newest that the filters leave, with the first of their lanes above.
function showNewest() {
  const circle = picture.querySelector(".dot.selected circle");
  const shown = [...picture.querySelectorAll(".dot:not(.off, .unmade) circle")];
  const newest = circle || shown.at(-1);
  if (!newest) return;
  const highest = shown.reduce((least, each) => Math.min(least, Number(each.getAttribute("cy"))), Infinity);
  scroller.scrollLeft = Number(newest.getAttribute("cx")) - room() / (circle ? 2 : 1) + 48;
  // The first lanes, unless the newest snapshot lies too far below.
  const top = Number(newest.getAttribute("cy")), isFar = top - highest + 90 > scroller.clientHeight;
  scroller.scrollTop = circle || isFar ? top - scroller.clientHeight / 2 : highest - 60;
}

function browse(arcs) {
  // In a file of its own there are no other pages, and the address stays as it is.
  const alone = document.body.hasAttribute("data-alone");
  const dots = [...picture.querySelectorAll(".dot")];
  const circles = dots.map((dot) => dot.querySelector("circle"));
  const x = circles.map((circle) => Number(circle.getAttribute("cx")));
  const y = circles.map((circle) => Number(circle.getAttribute("cy")));
  // What the filters leave out is walked through, and not drawn.
  const isShown = (index) => !dots[index].matches(".off, .unmade");
  const sources = new Map(), sinks = new Map();
  for (const [source, sink] of arcs) {
    if (!sources.has(sink)) sources.set(sink, []);
    sources.get(sink).push(source);
    if (!sinks.has(source)) sinks.set(source, []);
    sinks.get(source).push(sink);
  }
  const hover = picture.querySelector(".hover"), drawn = picture.querySelector(".arcs");
  const later = picture.querySelector(".later"), stretched = picture.querySelector(".stretched");
  const times = [...picture.querySelectorAll(".day-name")];
  const width = Number(picture.getAttribute("width")), height = Number(picture.getAttribute("height"));
  let scale = 1, shownUntil = Infinity, selected = dots.findIndex((dot) => dot.classList.contains("selected"));
  showNewest();

  // --- what leads to a snapshot, and from it

  function walk(start, following, hops) {
    const seen = new Set([start]), pairs = [];
    let frontier = [start];
    while (frontier.length && hops > 0) {
      hops -= 1;
      const reached = new Set();
      for (const near of frontier) {
        for (const other of following.get(near) || []) {
          pairs.push([near, other]);
          if (!seen.has(other)) reached.add(other);
        }
      }
      for (const other of reached) seen.add(other);
      frontier = [...reached];
    }
    seen.delete(start);
    return [seen, pairs];
  }

  function curve(source, sink, name) {
    const bend = Math.max(12, (x[sink] - x[source]) >> 1);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    line.setAttribute("class", name);
    line.setAttribute("d", `M${x[source]} ${y[source]}C${x[source] + bend} ${y[source]} ${x[sink] - bend} ${y[sink]} ${x[sink]} ${y[sink]}`);
    return line;
  }

  function setting(name, otherwise) {
    return new URLSearchParams(location.search).get(name) || otherwise;
  }

  function draw(source, sink, name, where) {
    if (!isShown(source) || !isShown(sink)) return;
    const line = curve(source, sink, name);
    line.dataset.made = dots[sink].dataset.time;
    line.classList.toggle("unmade", Number(line.dataset.made) > shownUntil);
    where.append(line);
  }

  function select(index, remember) {
    const direction = setting("direction", "both"), asked = setting("hops", "all");
    const hops = asked === "all" ? Infinity : Number(asked);
    const start = changeOf(index);
    const [up, upPairs] = direction === "down" ? [new Set(), []] : walk(start, sources, hops);
    const [down, downPairs] = direction === "up" ? [new Set(), []] : walk(start, sinks, hops);
    selected = index;
    picture.classList.add("has-selection");
    dots.forEach((dot, each) => {
      dot.classList.toggle("selected", each === index);
      dot.classList.toggle("up", up.has(each));
      dot.classList.toggle("down", down.has(each));
    });
    if (setting("arcs", "selected") !== "none") {
      if (setting("arcs", "selected") === "selected") drawn.replaceChildren();
      for (const old of drawn.querySelectorAll(".on")) old.classList.remove("on", "up", "down");
      for (const [sink, source] of upPairs) draw(source, sink, "arc on up", drawn);
      for (const [source, sink] of downPairs) draw(source, sink, "arc on down", drawn);
    }
    hover.replaceChildren();
    tell(dots[index], up.size, down.size);
    if (alone || !remember) return;
    const address = new URL(location.href);
    address.searchParams.set("select", nameOf(dots[index]));
    address.hash = "selected";
    remember(address);
  }

  function unselect() {
    selected = -1;
    picture.classList.remove("has-selection");
    for (const dot of dots) dot.classList.remove("selected", "up", "down");
    document.getElementById("selected").replaceChildren();
    if (setting("arcs", "selected") === "selected") drawn.replaceChildren();
  }

  // What a compaction holds was made by the change before it.
  function changeOf(index) {
    return Number(dots[index].dataset.change ?? index);
  }

  function nameOf(dot) {
    return new URL(dot.href.baseVal, location.href).searchParams.get("select");
  }

  // A click is a place to come back to; keys and the slider are not.
  const push = (address) => history.pushState(null, "", address);
  const replace = (address) => history.replaceState(null, "", address);
  addEventListener("popstate", () => {
    if (alone) return;
    const name = setting("select", ""), index = dots.findIndex((dot) => name && nameOf(dot) === name);
    if (index < 0) unselect();
    else select(index);
    const before = at.value;
    showMoment(setting("at", ""));
    if (at.value !== before) showFates();
  });

  function tell(dot, up, down) {
    const place = document.getElementById("selected");
    const title = document.createElement("h2"), link = document.createElement("a"), line = document.createElement("p");
    const [name, ...facts] = dot.querySelector("title").textContent.split(" · ");
    const address = new URL(dot.href.baseVal, location.href);
    link.href = alone ? address.href : new URL("snapshot?ref=" + encodeURIComponent(nameOf(dot)), address).href;
    link.textContent = name;
    title.append(link);
    line.textContent = facts.join(" · ");
    const count = document.createElement("p");
    count.textContent = alone ? `In this file: ${up} snapshots that led to it, ${down} made from it.` : `Snapshots that led to it: ${up}. Made from it: ${down}.`;
    place.replaceChildren(title, line, count);
  }

  function indexOf(target) {
    const dot = target.closest && target.closest(".dot");
    return dot ? Number(dot.dataset.index) : -1;
  }

  picture.addEventListener("click", (event) => {
    const index = indexOf(event.target);
    if (index < 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    select(index, push);
  });
  picture.addEventListener("dblclick", (event) => {
    if (indexOf(event.target) >= 0) open_();
  });
  picture.addEventListener("mouseover", (event) => {
    const index = indexOf(event.target);
    hover.replaceChildren();
    if (index < 0 || index === selected || setting("arcs", "selected") === "none") return;
    const start = changeOf(index);
    for (const source of sources.get(start) || []) draw(source, start, "arc on up", hover);
    for (const sink of sinks.get(start) || []) draw(start, sink, "arc on down", hover);
  });

  // --- the platform as it was at a moment: what came later is shaded, nothing moves

  for (const button of document.querySelectorAll(".tools button")) button.hidden = false;
  const slider = document.getElementById("slider"), moment = document.getElementById("moment");
  const at = document.querySelector("input[name=at]");
  slider.disabled = false;
  if (at?.value) showMoment(at.value);
  // What stands beside the slider is what a screen reader says of it.
  function sayMoment(text) {
    moment.textContent = text;
    slider.setAttribute("aria-valuetext", text);
  }
  function shade(count, until) {
    const edge = count >= dots.length ? width : x[count] - 9;
    later.setAttribute("x", edge);
    later.setAttribute("width", Math.max(0, width - edge));
    shownUntil = until;
    // Branches that had not been made by then, and lines to what had not been committed.
    for (const each of document.querySelectorAll("#lanes [data-made]")) each.classList.toggle("unmade", Number(each.dataset.made) > until);
  }
  function showMoment(asked) {
    const utc = /(Z|[+-]\d\d:\d\d)$/i.test(asked) ? asked : asked + "Z";
    const until = asked ? Date.parse(utc) : Infinity;
    const first = dots.findIndex((dot) => Number(dot.dataset.time) > until);
    const count = first < 0 ? dots.length : first;
    at.value = asked;
    slider.value = count;
    sayMoment(asked ? asked.replace("T", " ") + " UTC" : "now");
    shade(count, until);
  }
  slider.addEventListener("input", () => {
    const count = Number(slider.value);
    const time = count >= dots.length ? "" : count > 0 ? timeOf(count - 1) : timeOf(0, -1);
    shade(count, time ? Date.parse(time.replace(" ", "T") + "Z") : Infinity);
    sayMoment(time ? time + " UTC" : "now");
    if (alone) return;
    at.value = time.replace(" ", "T");
    const address = new URL(location.href);
    if (time) address.searchParams.set("at", at.value);
    else address.searchParams.delete("at");
    replace(address);
  });

  slider.addEventListener("change", () => alone || showFates());

  // What had become of each snapshot by the moment of the address, and files of that moment.
  async function showFates() {
    const asked = location.href;
    const page = new DOMParser().parseFromString(await (await fetch(asked)).text(), "text/html");
    const then = page.querySelectorAll("svg.history .dot");
    if (asked !== location.href) return;
    if (then.length !== dots.length) return location.reload();
    dots.forEach((dot, index) => {
      dot.setAttribute("class", then[index].getAttribute("class"));
      dot.replaceChildren(...then[index].childNodes);
    });
    for (const id of ["files", "then", "listed"]) document.getElementById(id).replaceWith(page.getElementById(id));
    if (selected >= 0) select(selected);
  }

  // To the millisecond, UTC: commits of one second are told apart.
  function timeOf(index, later = 0) {
    return new Date(Number(dots[index].dataset.time) + later).toISOString().slice(0, -1).replace("T", " ");
  }

  // --- pan, zoom, and the picture as a file

  let held = null;
  scroller.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch" || !event.target.closest(".drawing") || indexOf(event.target) >= 0) return;
    held = { x: event.clientX, y: event.clientY, left: scroller.scrollLeft, top: scroller.scrollTop };
  });
  addEventListener("pointermove", (event) => {
    if (!held) return;
    scroller.classList.add("moving");
    scroller.scrollLeft = held.left - event.clientX + held.x;
    scroller.scrollTop = held.top - event.clientY + held.y;
  });
  addEventListener("pointerup", () => {
    held = null;
    scroller.classList.remove("moving");
  });

  function zoom(factor) {
    const middle = (scroller.scrollLeft + room() / 2) / scale;
    scale = Math.min(4, Math.max(0.1, scale * factor));
    // Lanes keep their height beside their names. What is stretched is not laid out anew; dots and times undo it for themselves.
    stretched.style.transform = `scaleX(${scale})`;
    picture.style.setProperty("--kept", 1 / scale);
    let free = -Infinity;
    for (const time of times) {
      // A time that another one would stand on is left out.
      const left = Number(time.getAttribute("x")) * scale;
      time.toggleAttribute("hidden", left < free);
      if (left >= free) free = left + time.textContent.length * 6.5 + 8;
    }
    picture.setAttribute("width", width * scale);
    picture.setAttribute("viewBox", `0 0 ${width * scale} ${height}`);
    scroller.scrollLeft = middle * scale - room() / 2;
  }
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => zoom(Number(button.dataset.zoom)));
  }
  scroller.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.1 : 0.9);
  }, { passive: false });

  document.getElementById("png")?.addEventListener("click", async () => {
    const link = [...document.querySelectorAll("#files a")].find((each) => each.textContent === "SVG");
    const text = await (await fetch(new URL(link.getAttribute("href").split("?")[0] + location.search, location.href))).text();
    const image = new Image();
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    await image.decode();
    const canvas = document.createElement("canvas");
    // No browser draws more at once.
    const size = Math.min(2, 16000 / image.width, 16000 / image.height);
    canvas.width = image.width * size;
    canvas.height = image.height * size;
    const context = canvas.getContext("2d");
    context.fillStyle = getComputedStyle(document.body).backgroundColor;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    const save = document.createElement("a");
    save.href = canvas.toDataURL("image/png");
    save.download = "history.png";
    save.click();
  });

  // --- keys

  function step(key) {
    const from = selected < 0 ? dots.length - 1 : selected;
    if (selected < 0) return from;
    const sideways = key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0;
    if (sideways) {
      for (let each = from + sideways; each >= 0 && each < dots.length; each += sideways) {
        if (y[each] === y[from] && isShown(each)) return each;
      }
      return from;
    }
    const below = key === "ArrowDown" ? 1 : -1;
    const levels = [...new Set(y)].sort((left, right) => left - right);
    for (let level = levels.indexOf(y[from]) + below; level >= 0 && level < levels.length; level += below) {
      let best = -1;
      dots.forEach((_, each) => {
        if (y[each] === levels[level] && isShown(each) && (best < 0 || Math.abs(x[each] - x[from]) < Math.abs(x[best] - x[from]))) best = each;
      });
      if (best >= 0) return best;
    }
    return from;
  }

  function open_() {
    const link = document.querySelector("#selected a");
    if (link) location.href = link.href;
  }

  scroller.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select")) return;
    if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      const index = step(event.key);
      select(index, replace);
      dots[index].scrollIntoView({ block: "nearest", inline: "nearest" });
    } else if (event.key === "Enter" && selected >= 0) {
      event.preventDefault();
      open_();
    } else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "Escape") {
      unselect();
      if (alone) return;
      const address = new URL(location.href);
      address.searchParams.delete("select");
      replace(address);
    }
  });
}
