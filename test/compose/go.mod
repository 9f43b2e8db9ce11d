module github.com/waybill-dev/waybill/test/compose

go 1.26.8

replace github.com/waybill-dev/waybill => ../..

require github.com/compose-spec/compose-go/v2 v2.16.2
