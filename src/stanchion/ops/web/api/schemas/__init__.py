"""The JSON schemas of the API, of bodies and of answers, by the names under which the document has them."""
