// Package interop checks that the verifiers which receivers really use accept
// what Waybill signs and refuse what it did not: Standard Webhooks, Svix and
// Stripe, in Go and in Node.js.
//
// It is a module of its own, so that those libraries never become dependencies
// of Waybill. It needs Node.js 20 or later and, once,
//
//	cd test/interop/node && npm ci --ignore-scripts
//
// and then
//
//	cd test/interop && go test -count=1 ./...
//
// (-count=1 because go test's cache does not see changes to files outside the
// module, such as the events in testdata.) A missing Node.js or package fails the tests. node/receiver.mjs is also the
// receiver of the end-to-end tests.
package interop
