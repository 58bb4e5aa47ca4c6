"use strict";
(() => {
  const everyMs = 5000;
  const patienceMs = 10000;
  const live = document.querySelector("#live span");
  const button = document.querySelector("#live button");
  let isPaused = false;
  let lastAnswer = new Date();

  const say = (text, isBad) => {
    // Screen readers read what changes; the same again is not news.
    if (live.textContent !== text) live.textContent = text;
    live.className = isBad ? "bad" : "";
  };

  const show = (text) => {
    // Its style is that of this page already; the browser would refuse it with the other mark.
    const unstyled = text.replace(/<style[^]*?<\/style>/, "");
    const next = new DOMParser().parseFromString(unstyled, "text/html");
    const [from, to] = [next, document].map((page) => page.querySelector("#content"));
    // Something else may have the port by now.
    if (!from) throw new Error("no page of an engine");
    const isOpen = to.querySelector("details").open;
    const scrolled = [...to.querySelectorAll(".wide")].map((box) => box.scrollLeft);
    const focus = [...to.querySelectorAll(".wide, a, summary")].indexOf(document.activeElement);
    from.querySelector("details").open = isOpen;
    to.replaceChildren(...from.childNodes);
    to.querySelectorAll(".wide").forEach((box, place) => { box.scrollLeft = scrolled[place] ?? 0; });
    if (focus >= 0) to.querySelectorAll(".wide, a, summary")[focus]?.focus({ preventScroll: true });
    document.querySelector("h1").textContent = next.querySelector("h1").textContent;
    document.title = next.title;
  };

  const renew = async () => {
    // What somebody is about to copy stays.
    if (isPaused || document.hidden || !document.getSelection().isCollapsed) return;
    try {
      const answer = await fetch(location.href, { signal: AbortSignal.timeout(patienceMs) });
      if (!answer.ok) throw new Error(answer.statusText);
      show(await answer.text());
      lastAnswer = new Date();
      say(`Renewed every ${everyMs / 1000} s.`, false);
    } catch {
      const time = lastAnswer.toLocaleTimeString();
      say(`The server does not answer. The figures are of ${time}; trying again every ${everyMs / 1000} s.`, true);
    }
  };

  const loop = async () => {
    await renew();
    setTimeout(loop, everyMs);
  };

  button.hidden = false;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Go on" : "Pause";
    say(isPaused ? "Paused." : `Renewed every ${everyMs / 1000} s.`, false);
  });
  say(`Renewed every ${everyMs / 1000} s.`, false);
  setTimeout(loop, everyMs);
})();
