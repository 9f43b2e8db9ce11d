// Another program that verifies a file of evidence: written from
// docs/evidence-file.md alone, without a library. Exits 0 if the file is proven;
// otherwise it says the first step that fails.
//
//   node verify.mjs FILE VERIFIER-KEY
import { createHash, createPublicKey, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';

const sha256 = (...parts) => parts.reduce((h, p) => h.update(p), createHash('sha256')).digest();
const fail = (step, why) => { console.error(`step ${step}: ${why}`); process.exit(1); };
const must = (ok, step, why) => ok || fail(step, why);
const bytes = (text, step) => {
  const b = Buffer.from(text, 'base64');
  must(b.toString('base64') === text, step, 'base64 is not canonical');
  return b;
};

const limits = 'This file proves that its records were in the ledger, as they are here, when the checkpoint was signed. ' +
  'It cannot prove that the ledger has no further record of this event: that is shown on the whole ledger, by waybill ledger verify ' +
  "and waybill audit completeness. The statement is the exporter's word; no signature covers it.";

// JSON.stringify writes strings as RFC 8785 does, and members in their order.
function write(f) {
  const s = JSON.stringify;
  const only = (o, ...names) => Object.fromEntries(names.map((n) => [n, o[n]]));
  const statement = only(f.statement, 'exported_at', 'exported_by', 'software', 'checkpoint_at', 'uncovered', 'queries');
  statement.queries = statement.queries.map((q) => only(q, 'finds', 'sql'));
  if (f.format === 'waybill-evidence/2') statement.events = only(f.statement.events, 'asked_at', 'vouched', 'beyond', 'findings');
  const checkpoint = only(f.checkpoint, 'note', 'timestamps');
  checkpoint.timestamps = checkpoint.timestamps.map((t) => only(t, 'authority', 'token'));
  return `{"format":${s(f.format)},\n"subject":${s(only(f.subject, 'tenant', 'event_id', 'endpoint_id'))},\n"limits":${s(f.limits)},\n` +
    `"statement":${s(statement)},\n"checkpoint":${s(checkpoint)},\n"records":[` +
    f.records.map((r) => '\n' + s(only(r, 'idx', 'epoch', 'seq', 'body', 'proof'))).join(',') + '\n],\n';
}

const [file, vkey] = process.argv.slice(2);
const raw = readFileSync(file);

const last = raw.lastIndexOf('\n', raw.length - 2) + 1;
const head = raw.subarray(0, last);
must(raw.subarray(last).equals(Buffer.from(`"sha256":"${sha256(head).toString('hex')}"}\n`)), 1, 'the digest in the last line does not fit');

let f;
try { f = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(raw)); } catch (e) { fail(2, e.message); }
must(['waybill-evidence/1', 'waybill-evidence/2'].includes(f.format) && f.limits === limits, 2, 'another format');
must(Buffer.from(write(f)).equals(head), 2, 'it is not written as the format says');

const [name, hash] = vkey.split('+');
const key = bytes(vkey.split('+').slice(2).join('+'), 3);
must(key[0] === 1 && key.length === 33 && sha256(name + '\n', key).subarray(0, 4).toString('hex') === hash, 3, 'that is no verifier key');
const cut = f.checkpoint.note.lastIndexOf('\n\n');
const text = f.checkpoint.note.slice(0, cut + 1);
const lines = f.checkpoint.note.slice(cut + 2).split('\n').slice(0, -1);
const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: key.subarray(1).toString('base64url') }, format: 'jwk' });
const seen = new Set();
let signed = false;
for (const line of lines) {
  const [, signer, b64] = /^— (\S+) (\S+)$/.exec(line) ?? fail(3, 'a line is no signature');
  const b = bytes(b64, 3);
  const id = `${signer}+${b.subarray(0, 4).toString('hex')}`;
  must(!seen.has(id), 3, 'a key signs twice');
  seen.add(id);
  if (id !== `${name}+${hash}`) continue;
  must(b.length === 68 && verify(null, Buffer.from(text), publicKey, b.subarray(4)), 3, 'the signature does not fit');
  signed = true;
}
must(signed, 3, 'not signed by that key');

const [origin, sizeText, rootText] = text.split('\n');
must(origin === name && /^(0|[1-9][0-9]*)$/.test(sizeText), 4, 'no checkpoint of that ledger');
const size = BigInt(sizeText), root = bytes(rootText, 4);

// RFC 9162, section 2.1.3.2.
function leads(leaf, index, proof) {
  let fn = index, sn = size - 1n, r = leaf;
  for (const p of proof) {
    if (sn === 0n) return false;
    if (fn & 1n || fn === sn) {
      r = sha256(Buffer.from([1]), p, r);
      while (!(fn & 1n) && fn !== 0n) { fn >>= 1n; sn >>= 1n; }
    } else {
      r = sha256(Buffer.from([1]), r, p);
    }
    fn >>= 1n; sn >>= 1n;
  }
  return sn === 0n && r.equals(root);
}

must(f.records.length > 0, 5, 'no record');
let before = -1n;
const records = f.records.map((r) => {
  const idx = BigInt(r.idx), body = bytes(r.body, 5);
  must(idx > before && idx < size, 5, `record ${r.idx} is out of order or not covered`);
  before = idx;
  const entry = `waybill-record/1 ${r.epoch} ${r.seq} ${sha256(body).toString('hex')}`;
  must(leads(sha256(Buffer.from([0]), entry), idx, r.proof.map((p) => bytes(p, 5))), 5, `record ${r.idx} does not lead to the root`);
  return JSON.parse(body.toString());
});

const { tenant, event_id, endpoint_id } = f.subject;
const owns = (r) => r.event_id === event_id && r.tenant === tenant && (!endpoint_id || !r.endpoint_id || r.endpoint_id === endpoint_id);
const own = records.filter(owns);
must(event_id && tenant && own.length > 0, 6, 'no record is about the event');
const matches = (pattern, type) => new RegExp('^' + pattern.split('.').map((t) => (t === '*' ? '[^.]+' : t === '>' ? '.+' : t)).join('\\.') + '$').test(type);
for (const r of records.filter((r) => !owns(r))) {
  const belongs = !r.event_id && (
    r.kind === 'endpoint.changed' ? r.tenant === tenant && own.some((o) => o.endpoint_id === r.endpoint_id && o.endpoint_revision === r.endpoint_revision)
    : r.kind === 'event_type.changed' ? r.tenant === tenant && r.event_types?.length === 1 && own.some((o) => o.event_type && matches(r.event_types[0], o.event_type))
    : r.kind === 'operator.action' && r.action?.startsWith('escalation_policy.') ? own.some((o) => o.escalation_policy === r.escalation_policy)
    : r.kind === 'operator.action' && r.action?.startsWith('channel.') && r.revision > 0 && own.some((o) => o.channel === r.channel));
  must(belongs, 6, `record ${r.id} does not belong`);
}

must(f.statement.uncovered.every((u) => BigInt(u) >= size), 7, 'a covered record is called uncovered');
for (const finding of f.statement.events?.findings ?? []) console.log(`EVENTS did not vouch for it: ${finding}`);
console.log(`proven: ${records.length} records`);
