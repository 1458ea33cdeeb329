// Order of search results: headings that contain the query first, then guides, then generated and internal pages.
var Scorer = {
  score: ([page, title, anchor, about, score, file, kind]) =>
    score + (kind === "title" ? 30 : 0) - (/^reference\/|^internals|own$/.test(page) ? 6 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
