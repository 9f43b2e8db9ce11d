// Reads signed requests as JSON lines from standard input, checks each with the
// library that it names, and writes one JSON line with the verdict for each:
//
//   {"name","verifier","secret","headers":{…},"body":<base64>}
//   {"name","verifier","accepted":true|false,"error"?}
//
// The libraries use the real clock.
import { createPublicKey, verify } from "node:crypto";
import { createInterface } from "node:readline";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as SvixWebhook } from "svix";

const webhooks = Stripe.webhooks;

const verifiers = {
  standardwebhooks: ({ secret, headers, body }) => new Webhook(secret).verify(body, headers),
  svix: ({ secret, headers, body }) => new SvixWebhook(secret).verify(body, headers),
  stripe: ({ secret, headers, body }) => webhooks.constructEvent(body, headers["stripe-signature"], secret),
  ed25519,
};

// No published library checks v1a signatures, so this does, from the wording of
// the Standard Webhooks specification alone: "whpk_" and the base64 of the
// public key; an Ed25519 signature over "msg_id.timestamp.payload" in base64
// after "v1a,"; several signatures separated by spaces.
function ed25519({ secret, headers, body }) {
  if (!secret.startsWith("whpk_")) throw new Error("not a public key");
  const x = Buffer.from(secret.slice("whpk_".length), "base64").toString("base64url");
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  const timestamp = headers["webhook-timestamp"];
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) throw new Error("timestamp outside the tolerance");
  const content = Buffer.concat([Buffer.from(`${headers["webhook-id"]}.${timestamp}.`), body]);
  for (const signature of headers["webhook-signature"].split(" ")) {
    const [version, text] = signature.split(",");
    if (version === "v1a" && verify(null, content, key, Buffer.from(text, "base64"))) return;
  }
  throw new Error("no signature matches");
}

for await (const line of createInterface({ input: process.stdin })) {
  const { name, verifier, secret, headers, body } = JSON.parse(line);
  const verdict = { name, verifier, accepted: true };
  try {
    verifiers[verifier]({ secret, headers, body: Buffer.from(body, "base64") });
  } catch (error) {
    // A fault of this script must not pass for a refusal.
    if (error instanceof TypeError || error instanceof ReferenceError) throw error;
    verdict.accepted = false;
    verdict.error = error.message;
  }
  console.log(JSON.stringify(verdict));
}
