package cli

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/operator/control"
)

// tenantOnRecord is asked when a list of one tenant is empty: a misspelt name must
// not read as "nothing is wrong". A tenant has no record of its own, so what is
// looked for is an endpoint, deleted ones too, or a delivery.
func tenantOnRecord(ctx context.Context, ctl *control.Control, tenant string) error {
	if tenant == "" {
		return nil
	}
	endpoints, err := ctl.Endpoints(ctx, control.EndpointFilter{Tenant: tenant, Deleted: true})
	if err != nil || len(endpoints) > 0 {
		return err
	}
	page, err := ctl.Deliveries(ctx, control.DeliveryFilter{Tenant: tenant}, "", 1)
	if err != nil || len(page.Deliveries) > 0 {
		return err
	}
	return fmt.Errorf("tenant %q has no endpoint and no delivery on record; is it spelt so? see the tenants: waybill "+
		"endpoint list --deleted", tenant)
}
