// Order of search results: headings that contain the query first, then pages by the number of its words in their
// headings, then guides before generated and internal pages. Sphinx itself counts the best word of a page only.
const headingWords = (page) => {
  const [, words] = Search._parseQuery(new URLSearchParams(window.location.search).get("q") ?? "");
  const file = Search._index.docnames.indexOf(page);
  return [...words].filter((word) => [Search._index.titleterms[word] ?? []].flat().includes(file)).length;
};

var Scorer = {
  score: ([page, title, anchor, about, score, file, kind]) =>
    score +
    (kind === "title" ? 30 : 0) +
    (kind === "text" ? 8 * headingWords(page) : 0) -
    (/^(reference|inside|section-)|^internals|own$/.test(page) ? 12 : /^coming-from/.test(page) ? 3 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
