import { render } from "preact";
import { App } from "./app.js";
import { loadCatalog } from "./store.js";

render(<App />, document.getElementById("app")!);
void loadCatalog();
