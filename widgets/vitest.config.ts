import { appendFileSync, mkdirSync } from "node:fs";
import { defineConfig } from "vitest/config";
import type { Reporter, TestCase } from "vitest/node";

/** Lists a test that failed, and passed at its second try, where `make test` looks for flaky ones. */
const flaky: Reporter = {
  onTestCaseResult(test: TestCase) {
    if (!test.diagnostic()?.flaky) return;
    mkdirSync("../test-results", { recursive: true });
    appendFileSync("../test-results/flaky.txt", `widgets/${test.module.relativeModuleId}: ${test.fullName}\n`);
  },
};

export default defineConfig({
  define: { FIRST_PART: JSON.stringify("cards-0000AAAA.js") },
  test: {
    environment: "jsdom",
    include: ["tests/**/*.test.{ts,tsx}"],
    fileParallelism: false,
    isolate: false, // a document for each file took longer than its tests
    retry: 1,
    reporters: ["default", flaky],
  },
});
