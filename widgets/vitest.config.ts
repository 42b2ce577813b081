import { defineConfig } from "vitest/config";

export default defineConfig({
  define: { FIRST_PART: JSON.stringify("cards-0000AAAA.js") },
  test: { environment: "jsdom", include: ["tests/**/*.test.{ts,tsx}"], fileParallelism: false },
});
