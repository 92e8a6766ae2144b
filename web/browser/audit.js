// What axe finds in a page.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Fails where axe finds anything in the page as it is, in both themes and at two widths, or where the page is too wide. */
export async function audit(page, state) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 360]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
      const found = await page.evaluate(async () => {
        const { violations } = await axe.run(document, { resultTypes: ["violations"] });
        return violations.map((v) => `${v.id}: ${v.help}\n${v.nodes.slice(0, 3).map((n) => `  ${n.html} ${n.failureSummary}`).join("\n")}`);
      });
      assert.deepEqual(found, [], `${state}, ${colorScheme}, ${width} pixels wide`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${state}: at ${width} pixels the page is ${wide} too wide`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}
