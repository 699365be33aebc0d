require_relative 'verify'

$stdin.each_line(chomp: true) do |line|
  body, header, secrets, tolerance, now = line.split("\t", -1)
  given = secrets.split(',', -1).map { |secret| secret == '-' ? nil : secret.unpack1('m').force_encoding('UTF-8') }
  given = secrets[1..].unpack1('m').force_encoding('UTF-8') if secrets.start_with?('=')
  text = header == '-' ? nil : header.unpack1('m').force_encoding('UTF-8')
  tolerance, now = [tolerance, now].map { |number| number == 'NaN' ? Float::NAN : number.to_i }
  puts verify(body.unpack1('m'), text, given, tolerance: tolerance, now: now) ? 1 : 0
end
