// A receiver as Waybill's documentation asks for it: read the raw body, verify
// it, claim the id if nobody has, answer 204, and do the work afterwards, by
// the event's timestamp and not by arrival.
//
//   WAYBILL_SECRET   whsec_…; several, separated by commas, during a rotation
//   WAYBILL_PORT     default 0: any free one; it listens on 127.0.0.1
//
// Standard output has one JSON object a line: {"port"} first, one line for each
// request, and a last one on SIGTERM or SIGINT, after which it exits with 0:
//
//   {"verdict":"accepted"|"duplicate","status":204,"id","type","deliveryAttempt","bytes","sha256"}
//   {"verdict":"rejected","status":400|405|413,"id","reason"}
//   {"verdict":"stopped","accepted","applied","stale"}
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const maxBody = 1 << 20;

const secrets = (process.env.WAYBILL_SECRET ?? "").split(",").filter(Boolean);
if (secrets.length === 0) {
  console.error("receiver: set WAYBILL_SECRET to the endpoint's whsec_… secret");
  process.exit(2);
}
const webhooks = secrets.map((secret) => new Webhook(secret));

const claimed = new Map(); // webhook-id to event; in production a table with a unique key
const latest = new Map(); // what an event is about to the newest timestamp applied
const work = []; // acknowledged, not yet applied
const counts = { accepted: 0, applied: 0, stale: 0 };

const print = (line) => process.stdout.write(JSON.stringify(line) + "\n");

class Rejection extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function rawBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    // Read on past the limit, so that the sender gets to read the answer.
    if (size <= maxBody) chunks.push(chunk);
  }
  if (size > maxBody) throw new Rejection(413, `body of ${size} bytes; at most ${maxBody}`);
  return Buffer.concat(chunks);
}

// verified is the event, if any of the secrets signed it.
function verified(body, headers) {
  let last;
  for (const webhook of webhooks) {
    try {
      return webhook.verify(body, headers);
    } catch (error) {
      last = error;
    }
  }
  throw new Rejection(400, last.message);
}

// claim is one step, insert if absent: two retries at once must not both win.
function claim(id, event) {
  if (claimed.has(id)) return false;
  claimed.set(id, event);
  return true;
}

// about is what has a state that an older event must not bring back.
function about({ id, data }) {
  return data?.patientId && data?.projectId ? `${data.patientId}/${data.projectId}` : id;
}

function applyIfNewer(event) {
  const key = about(event);
  const at = Date.parse(event.timestamp);
  if (at < (latest.get(key) ?? -Infinity)) {
    counts.stale++;
    return;
  }
  latest.set(key, at);
  counts.applied++;
}

function drain() {
  for (const event of work.splice(0)) applyIfNewer(event);
}

let stopping = false;

function answer(response, status, text) {
  if (stopping) response.setHeader("connection", "close");
  response.writeHead(status).end(text);
}

async function receive(request, response) {
  const id = request.headers["webhook-id"] ?? null;
  try {
    if (request.method !== "POST") throw new Rejection(405, `method ${request.method}`);
    const body = await rawBody(request);
    const event = verified(body, request.headers);
    const isNew = claim(id, event);
    answer(response, 204);
    print({
      verdict: isNew ? "accepted" : "duplicate", status: 204, id, type: event.type,
      deliveryAttempt: event.deliveryAttempt, bytes: body.length,
      sha256: createHash("sha256").update(body).digest("hex"),
    });
    if (isNew) {
      counts.accepted++;
      work.push(event);
      setImmediate(drain);
    }
  } catch (error) {
    const status = error.status ?? 400; // a sender that hung up, or a body that is no JSON
    if (!response.headersSent) answer(response, status, error.message);
    print({ verdict: "rejected", status, id, reason: error.message });
  }
}

const server = createServer(receive);
server.listen(Number(process.env.WAYBILL_PORT ?? 0), "127.0.0.1", () => print({ port: server.address().port }));

function stop() {
  // Requests under way are answered; idle connections are not waited for.
  stopping = true;
  server.close(() => {
    drain();
    print({ verdict: "stopped", ...counts });
  });
  server.closeIdleConnections();
}
process.once("SIGTERM", stop);
process.once("SIGINT", stop);
