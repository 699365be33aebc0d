# Verifies X-Service-Signature. Requires only Ruby 2.7 or later.
require 'openssl'

# raw_body: the unparsed body; header: String or nil; secrets: the complete whsec_… texts; pass both during a rotation.
def verify(raw_body, header, secrets, tolerance: 300, now: Time.now.to_i)
  times = []
  given = []
  header.to_s.b.split(',', -1).each do |part|
    name, equals, value = part.partition('=')
    times << value if name == 't' && !equals.empty?
    given << value if name == 'v1' && /\A[0-9a-f]{64}\z/.match?(value)
  end
  return false unless times.length == 1 && /\A(0|[1-9][0-9]{0,14})\z/.match?(times[0])
  # `unless … <= …` also rejects if the tolerance or the time is NaN.
  return false unless (now - times[0].to_i).abs <= tolerance

  valid = false
  # Anyone could forge a signature with an empty key.
  Array(secrets).reject { |secret| secret.to_s.empty? }.each do |secret|
    expected = OpenSSL::HMAC.hexdigest('SHA256', secret, "#{times[0]}.".b + raw_body.b)
    given.each { |value| valid |= same?(expected, value) }
  end
  valid
end

# Compares in constant time. Both texts have 64 characters.
def same?(expected, value)
  expected.bytes.zip(value.bytes).reduce(0) { |difference, (a, b)| difference | (a ^ b) }.zero?
end

# Rails
#
#   def create
#     signature = request.headers['X-Service-Signature']
#     return head(:unauthorized) unless verify(request.raw_post, signature, [ENV.fetch('WEBHOOK_SECRET')])
#     HandleEventJob.perform_later(request.raw_post)   # deliveries may repeat: deduplicate by X-Service-Delivery
#     head :no_content                                 # acknowledge within 5 s
#   end
#
# Sinatra: request.body.read and request.env['HTTP_X_SERVICE_SIGNATURE'].
