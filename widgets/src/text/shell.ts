/** Shell lines, for the highlighter and the editor. Apart from the other languages: it comes with CodeMirror. */
import { StreamLanguage } from "@codemirror/language";
import { shell } from "@codemirror/legacy-modes/mode/shell";

export const shellLanguage = StreamLanguage.define(shell);
