package record

// ActionKeyRotated is the action of operator.action by which another key signs
// the ledger's checkpoints.
const ActionKeyRotated = "ledger.key_rotated"

// LedgerKeyRotated states that key signs from now on, and that before did. Whoever
// states it of the same key states the same record. Verifier keys are public.
func LedgerKeyRotated(origin, key, before string) Record {
	return Record{ID: string(OperatorAction) + "/" + ActionKeyRotated + "/" + key, Kind: OperatorAction, Tenant: "all",
		Action:   ActionKeyRotated,
		Settings: map[string]string{"origin": origin, "key": key, "before": before}}
}
