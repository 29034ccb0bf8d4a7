// promptfoo: six `llm-rubric` assertions a test, on responses that the `echo` provider repeats. Its database is the store.
// Arguments and answer as in meter.py.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [work, baseUrl, , concurrency] = process.argv.slice(2);
const { instructions, aspects, items, warm } = JSON.parse(readFileSync(work, 'utf8'));
const found = createRequire(join(process.cwd(), 'package.json')).resolve('promptfoo');
const { default: promptfoo } = await import(pathToFileURL(found));

const print = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);

const provider = {
  id: 'openai:chat:gpt-6-luna',
  config: { apiBaseUrl: baseUrl, apiKey: 'none', temperature: 0 },
};

async function score(dialogues) {
  const suite = {
    prompts: ['{{response}}'],
    providers: ['echo'],
    defaultTest: { options: { provider } },
    writeLatestResults: true,
    tests: dialogues.map((one) => ({
      vars: { context: one.context, response: one.response },
      assert: aspects.map((aspect) => ({
        type: 'llm-rubric',
        metric: aspect.id,
        value: `${instructions}\n\n${aspect.name}\n${aspect.criterion}\n\n対話文脈:\n{{context}}`,
      })),
    })),
  };
  const evaluated = await promptfoo.evaluate(suite, {
    maxConcurrency: Number(concurrency),
    showProgressBar: false,
    cache: false,
  });
  const summary = await evaluated.toEvaluateSummary();
  return summary.results.reduce(
    (sum, one) => sum + (one.gradingResult?.componentResults ?? []).filter((part) => !part.error && part.score !== undefined).length,
    0,
  );
}

if (warm.length) await score(warm);
const started = performance.now();
const cpu = process.cpuUsage();
const ratings = await score(items);
const wall = (performance.now() - started) / 1000;
const used = process.cpuUsage(cpu);
print(JSON.stringify({ wall_seconds: wall, cpu_seconds: (used.user + used.system) / 1e6, ratings }) + '\n');
process.exit(0);
