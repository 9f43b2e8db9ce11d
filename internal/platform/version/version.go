// Package version names this software, for records, requests and logs.
package version

// Version is the release. It changes in the commit that makes the release.
const Version = "0.1.0"

// Software is how records and User-Agent headers name it.
const Software = "Waybill/" + Version
