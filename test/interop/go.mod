module github.com/waybill-dev/waybill/test/interop

go 1.26.8

require (
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
	github.com/stripe/stripe-go/v85 v85.0.0
	github.com/svix/svix-webhooks v1.44.0
	github.com/waybill-dev/waybill v0.0.0
)

require gopkg.in/validator.v2 v2.0.1 // indirect

replace github.com/waybill-dev/waybill => ../..
