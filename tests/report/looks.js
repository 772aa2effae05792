// What can be seen of a page: its charts, where their texts are, and whether all of it fits.
(() => {
  const seen = (element) => element.getClientRects().length > 0;
  const box = (element) => {
    const found = element.getBoundingClientRect();
    return [found.left, found.top, found.right, found.bottom];
  };
  const charts = [...document.querySelectorAll("svg")].filter(seen).map((svg) => {
    const inner = svg.getBBox();
    const texts = [...svg.querySelectorAll("text:not(.halo)")].filter(seen);
    return {
      title: svg.closest("figure").querySelector("figcaption").textContent,
      size: [inner.width, inner.height],
      marks: svg.querySelectorAll("path:not(.grid), rect, circle").length,
      whole: box(svg),
      texts: texts.map((text) => [text.textContent, ...box(text)]),
      height: texts.length ? Math.min(...texts.map((text) => text.getBoundingClientRect().height)) : 0,
    };
  });
  const style = getComputedStyle(document.body);
  return JSON.stringify({
    charts,
    figures: document.querySelectorAll("figure").length,
    wide: document.documentElement.scrollWidth,
    window: innerWidth,
    paper: style.backgroundColor,
    ink: style.color,
    strange: document.querySelectorAll("script, img, iframe, object, video, link:not([rel=icon])").length,
    headings: [...document.querySelectorAll("h2")].map((heading) => heading.textContent),
  });
})()
