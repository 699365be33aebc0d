# Verifies X-Service-Signature. Ruby 2.7 or later, standard library only.
require 'openssl'

# raw_body: the bytes as they came; header: String or nil; secrets: the whole whsec_…, two of them while you rotate.
def verify(raw_body, header, secrets, tolerance: 300, now: Time.now.to_i)
  times = []
  given = []
  header.to_s.b.split(',', -1).each do |part|
    name, equals, value = part.partition('=')
    times << value if name == 't' && !equals.empty?
    given << value if name == 'v1' && /\A[0-9a-f]{64}\z/.match?(value)
  end
  return false unless times.length == 1 && /\A(0|[1-9][0-9]{0,14})\z/.match?(times[0])
  # Asked this way round, so that a tolerance or a time that is NaN lets nothing pass.
  return false unless (now - times[0].to_i).abs <= tolerance

  valid = false
  # With an empty key everybody could sign.
  Array(secrets).reject { |secret| secret.to_s.empty? }.each do |secret|
    expected = OpenSSL::HMAC.hexdigest('SHA256', secret, "#{times[0]}.".b + raw_body.b)
    given.each { |value| valid |= same?(expected, value) }
  end
  valid
end

# In constant time; both are 64 characters.
def same?(expected, value)
  expected.bytes.zip(value.bytes).reduce(0) { |difference, (a, b)| difference | (a ^ b) }.zero?
end

# Rails
#
#   def create
#     signature = request.headers['X-Service-Signature']
#     return head(:unauthorized) unless verify(request.raw_post, signature, [ENV.fetch('WEBHOOK_SECRET')])
#     HandleEventJob.perform_later(request.raw_post)   # deliveries may come twice: remember X-Service-Delivery
#     head :no_content                                 # acknowledge within 5 s
#   end
#
# Sinatra: request.body.read and request.env['HTTP_X_SERVICE_SIGNATURE'].
