// The page of `thermocline explore`.

import { render } from "preact";

import { App } from "./app";

const place = document.getElementById("app");
if (place) {
  place.replaceChildren();
  render(<App />, place);
}
