<?php
// Verifies X-Service-Signature. Requires only PHP 7.4 or later.

/**
 * @param string      $rawBody the unparsed request body: file_get_contents('php://input')
 * @param string|null $header  the value of X-Service-Signature
 * @param array       $secrets the complete secrets (whsec_…); pass both during a rotation; empty ones are skipped
 */
function verify(string $rawBody, ?string $header, array $secrets, int $tolerance = 300, ?int $now = null): bool
{
    $now = $now ?? time();
    $times = [];
    $given = [];
    foreach (explode(',', $header ?? '') as $part) {
        $pair = explode('=', $part, 2);
        if (count($pair) < 2) {
            continue;
        }
        [$name, $value] = $pair;
        if ($name === 't') {
            $times[] = $value;
        } elseif ($name === 'v1' && preg_match('/\A[0-9a-f]{64}\z/', $value)) {
            $given[] = $value;
        }
    }
    if (count($times) !== 1 || !preg_match('/\A(0|[1-9][0-9]{0,14})\z/', $times[0])) {
        return false;
    }
    if (!(abs($now - (int) $times[0]) <= $tolerance)) {
        return false;
    }
    $valid = false;
    foreach ($secrets as $secret) {
        // getenv() returns false for an unset variable. Anyone could forge a signature with an empty key.
        if (!is_string($secret) || $secret === '') {
            continue;
        }
        $expected = hash_hmac('sha256', $times[0] . '.' . $rawBody, $secret);
        foreach ($given as $value) {
            $valid = hash_equals($expected, $value) || $valid;
        }
    }
    return $valid;
}

// $rawBody = file_get_contents('php://input');
// if (!verify($rawBody, $_SERVER['HTTP_X_SERVICE_SIGNATURE'] ?? null, [getenv('WEBHOOK_SECRET')])) {
//     http_response_code(401);
//     exit;
// }
// http_response_code(204);            // acknowledge within 5 s
// handle(json_decode($rawBody));      // deliveries may repeat: deduplicate by X-Service-Delivery
