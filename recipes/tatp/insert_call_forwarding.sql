-- Subscribers are picked unevenly, as the benchmark does: the bits of two numbers, joined by or.
\set mask :subscribers / 16
\set s_id 1 + (random(0, :mask) | random(0, :subscribers - 1)) % :subscribers
\set type random(1, 4)
\set start random(0, 2) * 8
\set end :start + random(1, 8)
begin;
select s_id from subscriber where sub_nbr = lpad(:s_id::text, 15, '0');
select sf_type from special_facility where s_id = :s_id;
insert into call_forwarding
select s_id, sf_type, :start, :end, lpad(:s_id::text, 15, '0') from special_facility
where s_id = :s_id and sf_type = :type on conflict do nothing;
commit;
