import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { pool: "forks", include: ["tests/save-histories.ts"], globalSetup: ["tests/global-setup.ts"] },
});
