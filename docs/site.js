// What scrolls can be reached by the keyboard, and every landmark has a name of its own.
const mend = () => {
  for (const part of document.querySelectorAll("pre > code, .md-typeset__scrollwrap, .equation")) {
    if (part.scrollWidth > part.clientWidth && part.tabIndex < 0) part.tabIndex = 0;
  }
  document.querySelectorAll("nav.md-code__nav").forEach((part, i) => { part.ariaLabel = `Code ${i + 1}`; });
  document.querySelectorAll(".md-nav .md-nav").forEach((part, i) => {
    part.removeAttribute("aria-labelledby");
    part.ariaLabel = `Pages ${i + 1}`;
  });
};
window.addEventListener("load", () => {
  mend();
  new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
});
window.addEventListener("resize", mend);
