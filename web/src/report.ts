// What a report does in a browser. Without scripts, it shows the same as drawings and tables.

import { addCopyButtons } from "./copy";
import { showFigures } from "./figures";
import { enhanceTables } from "./tables";

showFigures(document);
enhanceTables(document);
addCopyButtons(document);
