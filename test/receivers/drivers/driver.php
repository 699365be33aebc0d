<?php
ini_set('memory_limit', '256M');
require __DIR__ . '/verify.php';

while (($line = fgets(STDIN)) !== false) {
    [$body, $header, $secrets, $tolerance, $now] = explode("\t", rtrim($line, "\n"));
    // getenv() returns false for a missing variable.
    $given = array_map(fn ($secret) => $secret === '-' ? false : base64_decode($secret), explode(',', $secrets));
    $text = $header === '-' ? null : base64_decode($header);
    echo verify(base64_decode($body), $text, $given, (int) $tolerance, (int) $now) ? 1 : 0, "\n";
}
