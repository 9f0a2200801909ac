// Runs executions in aws-local-stepfunctions. One JSON object per line, both ways:
//   in   {run: {definition, input, retried, timeouts_ms}}   {answer: {id, result | error}}   {stop: true}
//   out  {task: {id, input}}   {event: …}   {end: true}
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';

const require = createRequire(process.argv[2] + '/');
const { StateMachine } = require('aws-local-stepfunctions');

// Longer waits last until they are interrupted; shorter ones end at once, unless they bound a task.
const LONG_MS = 600_000;
const setTimer = globalThis.setTimeout;
let timeouts = new Set();
globalThis.setTimeout = (callback, ms, ...rest) =>
  setTimer(callback, ms < LONG_MS && !timeouts.has(ms) ? 0 : ms, ...rest);

const say = message => process.stdout.write(JSON.stringify(message) + '\n');
const open = new Map();
let calls = 0;
let running = null;

function call(input) {
  const id = ++calls;
  return new Promise((resolve, reject) => {
    open.set(id, { resolve, reject });
    say({ task: { id, input } });
  });
}

function taskNames(definition) {
  return Object.entries(definition.States).flatMap(([name, state]) => [
    ...(state.Type === 'Task' ? [name] : []),
    ...(state.Branches ?? []).flatMap(taskNames),
  ]);
}

async function run({ definition, input, timeouts_ms }) {
  timeouts = new Set(timeouts_ms);
  const names = taskNames(definition);
  const machine = new StateMachine(definition, { validationOptions: { checkArn: false } });
  running = machine.run(input, {
    overrides: {
      taskResourceLocalHandlers: Object.fromEntries(names.map(name => [name, call])),
      retryIntervalOverrides: Object.fromEntries(names.map(name => [name, 0])),
    },
    context: { Execution: { Name: 'played' } },
    noThrowOnAbort: true,
  });
  running.result.catch(() => {}); // the events tell
  for await (const event of running.eventLogs) say({ event });
  open.clear();
  say({ end: true });
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.run) run(message.run);
  if (message.stop) running.abort();
  const waiting = message.answer && open.get(message.answer.id);
  if (waiting) {
    open.delete(message.answer.id);
    const { result, error } = message.answer;
    if (error) waiting.reject(Object.assign(new Error(error.cause), { name: error.name }));
    else waiting.resolve(result);
  }
}
process.exit(0);
