// The page of `thermocline explore`.

import { render } from "preact";

function App() {
  return <h1>Explore</h1>;
}

const place = document.getElementById("app");
if (place) {
  render(<App />, place);
}
