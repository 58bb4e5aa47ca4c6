// What a report does in a browser. Without scripts, it shows the same as drawings and tables.

import { showFigures } from "./figures";
import { enhanceTables } from "./tables";
import { addCopyButtons } from "./copy";

showFigures();
enhanceTables();
addCopyButtons();
