// sqs-consumer with heartbeats, as its documentation shows them.
// https://bbc.github.io/sqs-consumer/interfaces/ConsumerOptions.html
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Consumer } from "sqs-consumer";

const file = process.env.PEERS_EVENTS;

function say(event, work) {
  const line = { id: work.id, event, pid: process.pid, at: Date.now() / 1000 };
  appendFileSync(file, JSON.stringify(line) + "\n");
}

function isFirst(work) {
  if (!existsSync(file)) return true;
  const lines = readFileSync(file, "utf8").trimEnd().split("\n").filter(Boolean);
  return !lines.some((line) => JSON.parse(line).id === work.id);
}

// As `work.do`.
async function handleMessage(message) {
  const work = JSON.parse(message.Body);
  const first = isFirst(work);
  say("begin", work);
  if (first && work.hangs) await new Promise(() => {});
  await sleep((first ? (work.first_s ?? work.seconds) : work.seconds) * 1000);
  if (first && work.fails) {
    say("fail", work);
    throw new Error(work.id);
  }
  say("end", work);
  return message;
}

const consumer = Consumer.create({
  queueUrl: process.env.PEERS_QUEUE,
  visibilityTimeout: 60,
  heartbeatInterval: 30,
  terminateVisibilityTimeout: true,
  handleMessage,
});
consumer.on("error", (error) => console.error(error.message));
consumer.on("processing_error", (error) => console.error(error.message));
consumer.start();
