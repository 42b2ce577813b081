// A person's journey in Firefox: node firefox.mjs PUPPETEER FIREFOX URL. It runs both cells of the notebook by Shift+Enter,
// approves by a key, and reads the record, also after a reload. Its last line is the record's text.
import { pathToFileURL } from "node:url";

const [puppeteerPath, executablePath, url] = process.argv.slice(2);
const { default: puppeteer } = await import(pathToFileURL(puppeteerPath).href);
const WAIT = { timeout: 90_000 };
const browser = await puppeteer.launch({ browser: "firefox", executablePath, headless: true });
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1200, height: 900 });
  await page.goto(url);
  const idle = () => globalThis.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === "idle";
  await page.waitForFunction(idle, WAIT);
  await page.click(".jp-Notebook .jp-Cell .cm-content");
  for (const _ of [0, 1]) {
    await page.keyboard.down("Shift");
    await page.keyboard.press("Enter");
    await page.keyboard.up("Shift");
  }
  const card = '[data-tool-call-id][role=group][data-state="awaiting_approval"]';
  await page.waitForSelector(card, WAIT);
  await page.focus(card);
  await page.keyboard.press("a");
  await page.waitForSelector("[data-agent-record]", WAIT);
  await page.evaluate(() => globalThis.jupyterapp.commands.execute("docmanager:save"));
  await page.reload();
  await page.waitForSelector("[data-agent-record]", WAIT);
  const text = await page.$eval("[data-agent-record]", (record) => record.textContent);
  console.log(text.replace(/\s+/g, " "));
} finally {
  await browser.close();
}
